"""The commented simulation file that ``lithowave init`` writes: it can be run unchanged and shows every key."""

from __future__ import annotations

from lithowave.description.schema import SCHEMA_PATH

_TEMPLATE = """\
# yaml-language-server: $schema={schema}
#
# A lithowave simulation: an earthquake below two layers. Unchanged, it runs within a minute.
# Lines that begin with '#' show other options; an editor with support for YAML schemas completes the keys.
#
# Numbers are in SI units; a string may contain a unit: "15 km", "2.7 g/cm^3", "5 Hz".
# x points East, y North, z Up. The flat surface is z = 0, depth is negative z. Time 0 is the origin time.
# (elements) marks options of spectral_element and discontinuous_galerkin that finite_difference does not support.

schema_version: 1
title: first steps

domain:                                  # the box; absorbing layers, if any, are added outside
  x: [-3000, 3000]
  y: ["-3 km", "3 km"]
  z: [-3000, 0]
  # crs: {{longitude: -117.76, latitude: 33.95}}     # position of x = y = 0 (origin of a local transverse
  #                                                # Mercator projection); required for geographic coordinates
  # chunk:                               # instead of x, y and z: a piece of the globe (spectral_element)
  #   center: [25, 38]                   # longitude, latitude
  #   width: [20, 16]                    # degrees, across and along the azimuth
  #   depth: 1200 km
  #   azimuth: 0                         # degrees from North to East
  #   ellipticity: false                 # true: surfaces of equal depth are ellipsoids
  #   elements: null                     # numbers along both axes at the surface; null: from max_frequency
  #   doublings: null                    # with elements: depths below which elements are twice as wide
  # topography: surface.nc               # (elements) surface elevation in m on x and y

boundaries:                              # each: free | absorbing | rigid
  top: free
  sides: absorbing
  bottom: absorbing
  # keys of single faces override the three above:
  # x_min: rigid                         # west
  # x_max: absorbing                     # east
  # y_min: absorbing                     # south
  # y_max: absorbing                     # north
  # z_min: absorbing                     # as bottom
  # z_max: free                          # as top
  absorption: auto                       # auto | layer | stacey (elements; reflects)
  layer:                                 # absorbing layers: perfectly matched
    cells: 10                            # thickness in grid cells
    # elements: null                     # thickness in elements; null: 2, tetrahedra 3 or 4
    reflection: null                     # theoretical reflection at normal incidence; null: 1e-4, tetrahedra 1e-5
    kappa: 1.0                           # coordinate stretching; above 1 for better absorption of grazing waves
    frequency: null                      # Hz; null: half of solver.max_frequency

# physics: {{gravity: true}}               # chunk of material.earth: gravity without changes of the potential

material:                                # exactly one of layers, homogeneous, earth, file, section, groups
  layers:                                # from the top down; `top` is z of the top of the layer
    - {{top: 0, vp: 3200, vs: 1600, rho: 2300}}
    - {{top: -1000, vp: "5 km/s", vs: "2.8 km/s", rho: "2.6 g/cm^3"}}
  #   - {{top: basement.nc, vp: 4500, vs: 2600, rho: 2600}}      # a surface: elevation in m on x and y
  #   - {{top: 0, vp: 1800, vs: 700, rho: 2000, gradient: {{vp: "0.6 1/s", vs: 0.4}}}}
  #                                      # increase per meter of depth, also rho: 0.1, qp: 0.1, qs: 0.05; depth
  #                                      # is measured from the top of the layer, or from a level: 0
  # homogeneous: {{vp: 5000, vs: 2900, rho: 2600}}
  # earth: prem                          # radial model: prem | ak135 | iasp91 | file of layers; or a group of keys:
  # earth:
  #   model: prem
  #   ocean: false                       # true: keep fluid layers at the surface
  #   anisotropy: false                  # true: transverse isotropy with a radial axis (spectral_element)
  #   attenuation: true                  # false: ignore the quality factors of the model
  #   frequency: null                    # Hz, of the velocities with attenuation: false; null: that of the model
  #   minimum_thickness: null            # m, below which a layer is removed; null: none
  #   perturbations:                     # on longitude, latitude and depth; requires geographic coordinates
  #     - {{file: s40rts.nc, vp_from_vs: 0.5, rho_from_vs: 0.3}}     # d ln vp / d ln vs, d ln rho / d ln vs
  # file: model.nc                       # vp, vs, rho on a grid: NetCDF, HDF5 or .npz (with axes=["x", "y", "z"])
  # depth_origin: sea_level              # with file: depth is counted from sea_level (z = 0) | surface
  # extrapolate: false                   # with file: true: the model need not cover the domain
  # section:                             # SEG-Y files, traces along x, samples down; constant across the section
  #   vp: vp.segy
  #   vs: vs.segy                        # 0 denotes a fluid (not finite_difference), here and in any material
  #   rho: density.segy
  #   speed_unit: km/s                   # unit in the files; default: m/s
  #   density_unit: g/cm^3               # default: kg/m^3
  #   along: x                           # or y
  #   spacing: [1.25, 1.25]              # between traces, between samples; default: from the headers
  #   origin: [0, 0]                     # x (or y) and z of the first sample of the first trace
  # groups: {{salt: {{vp: 4500, vs: 2600, rho: 2150}}}}     # per group of elements of solver.mesh
  #
  # Anisotropy (elements), in homogeneous, layers and groups; axis: direction of the symmetry axis:
  #   anisotropy: {{epsilon: 0.1, delta: 0.05, gamma: 0.1, axis: [0, 0, 1]}}     # Thomsen; vp, vs along axis
  #   stiffness: ["54 GPa", ...]         # instead of vp and vs: 21 moduli, rows xx, yy, zz, yz, xz, xy
  #
  # With attenuation, in homogeneous, layers and groups (in a file: variables qp and qs, or qkappa and qmu):
  #   - {{top: 0, vp: 3200, vs: 1600, rho: 2300, qp: 160, qs: 80}}     # or of the moduli: qkappa: 300, qmu: 80
  # attenuation:                         # how they are approximated; lithowave check prints the deviation
  #   reference_frequency: 0.26          # Hz, at which vp and vs are phase velocities; default: middle of the band
  #   band: [0.026, 2.6]                 # Hz; default: solver.max_frequency / 100 to solver.max_frequency
  #   mechanisms: 3                      # 1 to 8; Q deviates by about 3% with 3, 0.1% with 5
  #   exponent: 0                        # Q grows as (f / corner_frequency)^exponent above the corner; 0: constant
  #   corner_frequency: 1                # Hz
  # allow_implausible: false             # true: accept values outside 300 to 25,000 kg/m^3 and 30 to 30,000 m/s

sources:                                 # any number of sources
  - name: earthquake                     # optional, for messages and figures
    position: [0, 0, -2000]
    double_couple: {{strike: 30, dip: 60, rake: 90, mw: 4.0}}     # degrees; mw, or m0: 1.0e15 in N m
    time_function: {{gaussian: {{sigma: 0.15, delay: 0.9}}}}
    side: below                          # below | above: side of an interface on which the source is exactly
  # - position: [0, 0, -1500]
  #   moment_tensor: {{xx: 1.0e15, yy: 1.0e15, zz: 1.0e15, xy: 0, xz: 0, yz: 0}}   # N m; omitted components are 0
  #   time_function: {{brune: {{corner_frequency: 1.0, delay: 0}}}}    # or rise_time: 0.16
  # - position: [0, 0, -1500]
  #   moment_tensor: {{rr: 1.0e22 dyn cm, tt: 0, pp: 0, rt: 0, rp: 0, tp: 0}}      # of catalogs: up, south, east
  #   time_function: {{error_function: {{sigma: 0.15, delay: 0.9}}}}
  # - longitude: -117.766                # instead of position; requires domain.crs
  #   latitude: 33.949
  #   depth: 1500                        # positive downwards
  #   depth_origin: surface              # or sea_level: depths, also of files, count from z = 0
  #   force: [0, 0, 1.0e10]              # East, North, Up, in N
  #   time_function: {{ricker: {{frequency: 1.0, delay: 1.2}}}}
  # - file: CMTSOLUTION                  # or QuakeML: position, moment tensor and half duration; or FORCESOLUTION
  #   coordinates: geographic            # or cartesian: latorUTM, longorUTM; default: by their values
  #   delay: 2.0                         # delay in s, so that the source begins after time 0
  # - events:                            # instead of a file; requires domain.crs
  #     - {{name: A, origin_time: "2008-07-29T18:42:15Z", time_shift: 0.5, half_duration: 1.1, depth: 15500,
  #        longitude: -117.766, latitude: 33.949, moment_tensor: {{xy: 1.0e17}}}}
  #
  # Time functions: the moment rate (unit area), or the amplitude of a force (peak 1); `delay` shifts them in time.
  #   gaussian: {{sigma: 0.15, delay: 0.9}}               # delay: its peak
  #   ricker: {{frequency: 1.0, delay: 1.2}}              # for forces; delay: its peak
  #   ricker: {{frequency: 1.0, quantity: moment}}        # the moment, not its rate, has this shape; also gaussian
  #   error_function: {{sigma: 0.15, delay: 0.9}}         # delay: half the moment, or half the force
  #   brune: {{corner_frequency: 1.0, delay: 0}}          # delay: its beginning
  #   triangle: {{half_duration: 0.3, delay: 0.3}}        # delay: its peak
  #   boxcar: {{duration: 0.5, delay: 0}}                 # delay: its beginning
  #   smoothed_step: {{rise_time: 0.5, delay: 0}}         # delay: its beginning
  #   samples: {{file: stf.txt, interval: 0.01, delay: 0}}      # or values: [0, 0.5, 1, 0] without a file

receivers:
  - {{network: XX, name: S01, position: [1000, 1500, 0]}}       # or [1000, 1500]: on the surface
  - {{network: XX, line: {{prefix: L, start: [0, 0, 0], end: [2500, 0, 0], count: 11}}}}
  # - {{network: XX, plane: {{prefix: P, start: [-2000, -2000, 0], end: [2000, 2000, 0], counts: [5, 5]}}}}
  # - {{network: XX, name: S02, longitude: -117.75, latitude: 33.96, depth: 0}}
  # - file: STATIONS                     # lines: name network latitude longitude elevation burial
  #   coordinates: geographic            # or cartesian: y and x in m instead of latitude and longitude
  # - file: stations.xml                 # StationXML, or text of an FDSN service
  #   time: 2008-07-29T18:42:15          # epochs that contain this time; default: all
  #   channels: [BH?, HH?]               # channels whose positions are used; default: sensors of ground motion
  #   outside: omit                      # any file: omit receivers outside the domain, or refuse (default)
  # - file: receivers.csv                # columns network, station, location, longitude, latitude (or x, y), depth (z)
  #   crs: EPSG:32611                    # of the columns x and y; default: local coordinates
  # - {{file: line.segy, at_surface: true}}  # receiver groups of SEG-Y trace headers; default: at their elevation
  # - {{network: XX, name: S03, location: "00", position: [0, 0, -100]}}

# survey:                                # many shots, each a separate run with the source at another position
#   shots:                               # one entry or a list of entries
#     - {{line: {{start: [-2000, 0, -10], end: [2000, 0, -10], step: 500}}, scale: 1.0}}     # or count: 9
#     - {{plane: {{start: [-1000, -1000], end: [1000, 1000], counts: [3, 3]}}, depth: 10}}   # below the surface
#     - {{name: last, position: [0, 500, -10], time_function: {{gaussian: {{sigma: 0.2, delay: 1.2}}}}}}
#     - {{longitude: -117.76, latitude: 33.95, depth: 10}}
#     - file: shots.csv                  # columns x, y, z (or longitude, latitude, depth); name; scale
#       coordinates: cartesian           # or geographic: x and y in degrees; default: by their values
#     - file: line.segy                  # source positions of SEG-Y trace headers
#   moving_receivers: false              # true: receivers move with the source
#   at_once: null                        # shots at the same time; null: one per GPU, or one on a CPU

duration: 5.0

solver:
  method: finite_difference              # finite_difference | spectral_element | discontinuous_galerkin
  max_frequency: 2.6                     # Hz; determines the grid spacing ...
  points_per_wavelength: 8               # ... together with this key; or set the grid spacing directly:
  # accuracy: standard                   # instead of these: draft | standard | fine, errors of 2%, 0.3%, 0.05%
  # spacing: 75                          # m; or size of an element, or of cubes split into tetrahedra
  order: 4                               # in space: 2 | 4 | 6 | 8; with discontinuous_galerkin 2 to 7, usually 5
  passes: auto                           # passes over memory per step: auto | one (on a GPU) | two
  effective_medium: auto                 # of cells cut by interfaces: auto | isotropic | transverse | orthorhombic
  memory_variables: auto                 # of attenuation: auto | coarse (one mechanism per node) | full
  time_dispersion_correction: null       # true | false; null: true
  time_step: null                        # s; null: safety times the stability limit
  safety: 0.98
  # With spectral_element, instead of order and the keys up to memory_variables:
  # degree: 4                            # of the polynomials, 2 to 8
  # memory_variables: auto               # of attenuation: auto | coarse (at some points) | full (at all points)
  # With discontinuous_galerkin, instead of the keys from passes to memory_variables:
  # local_time_steps: null               # true | false; null: if it saves at least a sixth of the updates
  # (elements) in generated meshes:
  # refine_sources: null                 # false: no smaller elements around sources
  # (elements) instead of points_per_wavelength and spacing:
  # mesh: model.msh                      # hexahedra with spectral_element, else tetrahedra; or with boundaries:
  # mesh: {{file: model.msh, surfaces: {{cover: free, 105: absorbing, fault: ignored}}}}

compute:
  backend: auto                          # auto | cpu | cuda
  precision: single                      # single | double
  moduli: full                           # or compact: the material in 16 bits per value on a GPU
  deterministic: false                   # true: bitwise identical results (spectral_element on a GPU: slower)
  threads: null                          # null: all cores, divided among the ranks of a machine
  # With several ranks (mpiexec -n 4 lithowave run FILE):
  # parts: [2, 2, 1]                     # subdomains along x, y, z (finite_difference); null: automatic
  # transport: auto                      # auto | peer | nccl | host, between GPUs

output:
  directory: out/first_steps
  sampling_interval: 0.02                # s
  quantity: velocity                     # displacement | velocity | acceleration
  stress: false                          # true: also record stresses at the receivers
  pressure: false                        # true: also record the pressure at the receivers
  # strain: true                         # (spectral_element) also record strains at the receivers
  formats: []                            # miniseed, sac, segy, asdf: in addition to seismograms.h5
  snapshots:                             # one entry or a list of entries
    interval: 0.1
    plane: {{z: 0}}                        # or {{x: ...}} or {{y: ...}}
    # volume: true                       # instead of a plane: the entire box
    fields: [velocity]                   # velocity, stress, pressure
    stride: 1                            # write every n-th grid point
  peak_motion: true                      # maps of peak ground velocity and displacement
  # checkpoint: {{interval: 1.0}}          # simulated seconds; SIGTERM, SIGUSR1 and SIGUSR2 always save it
  progress_interval: 5.0                 # wall-clock seconds between two progress reports
"""


def template_text(schema: str | None = None) -> str:
    """Return the file as text.

    Parameters
    ----------
    schema : path or address of the JSON Schema for editors; default: the installed one.
    """
    return _TEMPLATE.format(schema=SCHEMA_PATH.as_uri() if schema is None else schema)
