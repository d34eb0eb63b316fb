"""Tools the tests share: nothing here tests anything."""
