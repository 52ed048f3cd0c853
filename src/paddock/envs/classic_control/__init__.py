"""Classic control: small worlds with a few continuous variables."""
