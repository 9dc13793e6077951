"""How the store came to have the tables it has, one file a change."""
