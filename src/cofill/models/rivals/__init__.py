"""The paper's rivals, behind the contract that CFN passes: each is one module that a reader of its paper recognises."""
