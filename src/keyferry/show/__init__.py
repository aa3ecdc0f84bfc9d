"""Every way of showing: what a terminal gets, and documents for programs. It knows no other room's values."""
