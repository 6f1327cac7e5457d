"""The parts of the page. Each module makes sections out of a `Subject`."""
