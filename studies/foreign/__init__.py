"""The probe in worlds of other packages: what its interface is worth to a script there, and how much of it is true."""
