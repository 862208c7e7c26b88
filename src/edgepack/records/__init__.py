"""The frozen records that flow through a build, by who makes them. Functions act; these only say."""
