"""Code that the element methods share: meshes, location of points, samples of the fields, plans."""
