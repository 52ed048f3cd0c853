"""Ways out: paddock's environments in the form that other libraries expect. Each imports its library when called."""
