"""Event logs of the Identity Manager's JDBC driver, as triggers write them (``docs/formats/idm-event-log.md``)."""
