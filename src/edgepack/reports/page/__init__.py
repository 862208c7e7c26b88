"""The report as a web page: what it shows beside the report, its parts, and its styles and scripts."""
