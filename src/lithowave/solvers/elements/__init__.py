"""Parts that the methods on elements share: meshes, location of points, samples of the fields, plans."""
