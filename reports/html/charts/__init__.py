"""Series as Vega-Lite, one file a chart: scaled numbers for axes, texts for whoever points at a mark."""
