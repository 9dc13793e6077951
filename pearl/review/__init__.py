"""The page on which several people judge plans; what it needs beside Pearl is `pearl[review]`."""
