"""The paper's baselines, behind the contract that CFN passes, a module each."""
