"""The rules that judge the evidence."""
