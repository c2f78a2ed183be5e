"""The format ``idm-event-log``: the event log table of the Identity Manager JDBC driver."""
