"""Public measurements of what paddock promises. Whatever is scored here is scored by looking, not by asking."""
