"""Gridded models of linear functions, written to the published conventions of several formats."""

from __future__ import annotations

import numpy as np

LONGITUDE = np.linspace(-120.0, -118.0, 9)
LATITUDE = np.linspace(33.0, 35.0, 11)
DEPTH = np.array([0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0])  # km
NAMES = ("depth", "latitude", "longitude")

SIMULATION = {
    "domain": {"x": [-20e3, 20e3], "y": [-20e3, 20e3], "z": [-20e3, 0], "crs": {"longitude": -119, "latitude": 34}},
    "sources": [
        {"position": [0, 0, -2000], "force": [0, 0, 1e10], "time_function": {"ricker": {"frequency": 0.1, "delay": 12}}}
    ],
    "receivers": [{"network": "XX", "name": "A", "position": [0, 0, 0]}],
    "duration": 20.0,
    "solver": {"method": "finite_difference", "max_frequency": 0.2},
}


def speed(longitude, latitude, depth):
    """vp in km/s of a model that is linear along each axis; depth in km."""
    return 5.0 + 0.05 * depth + 0.1 * (latitude - 34.0) + 0.2 * (longitude + 119.0)


def values(depth=DEPTH, latitude=LATITUDE, longitude=LONGITUDE):
    """vp, vs, rho of shape (depth, latitude, longitude), in km/s and g/cm^3."""
    d, la, lo = np.meshgrid(depth, latitude, longitude, indexing="ij")
    vp = speed(lo, la, d)
    return {"vp": vp, "vs": vp / 1.8, "rho": 0.45 * vp}


def write_emc(path, kind="NETCDF4", dimensions=NAMES, change=None, longitude=LONGITUDE, depth=DEPTH, extra=()):
    """Write a model in the layout of the EarthScope EMC: km, km.s-1, g.cm-3, missing_value 99999, depth down."""
    import netCDF4

    axes = {"depth": depth, "latitude": LATITUDE, "longitude": longitude}
    units = {"depth": "km", "latitude": "degrees_north", "longitude": "degrees_east"}
    arrays = values(depth)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.setncatts(
            {
                "Conventions": "CF-1.0", "title": "a model", "geospatial_lat_min": 33.0, "geospatial_lat_max": 35.0,
                "geospatial_vertical_units": "km", "geospatial_vertical_positive": "down",
            }
        )  # fmt: skip
        for name, coordinates in axes.items():
            file.createDimension(name, len(coordinates))
            axis = file.createVariable(name, "f4", (name,))
            axis[:] = coordinates
            axis.units, axis.standard_name = units[name], name
        file["depth"].positive = "down"
        for name in (*arrays, *extra):
            variable = file.createVariable(name, "f4", dimensions)
            variable.units = "g.cm-3" if name == "rho" else "km.s-1"
            variable.missing_value = np.float32(99999.0)
            array = arrays.get(name, arrays["vp"])
            variable[:] = array.transpose([NAMES.index(axis) for axis in dimensions])
        if change:
            change(file)
    return path
