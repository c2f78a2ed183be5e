{
    "dfmVersion": "1.1",
    "taskInfo": {
        "name": "shop-load",
        "sourceEndpoint": "shop-db",
        "sourceEndpointType": "Informix",
        "sourceEndpointUser": "replicate",
        "replicationServer": "replicate-01",
        "operation": "storeChanges"
    },
    "fileInfo": {
        "name": "20260203-080000000.csv",
        "extension": "",
        "location": "attrep_ddl_history",
        "startWriteTimestamp": "2026-02-03T08:00:00.000",
        "endWriteTimestamp": "2026-02-03T08:02:01.900",
        "firstTransactionTimestamp": "2026-02-03T08:00:00.000",
        "lastTransactionTimestamp": "2026-02-03T08:02:01.900",
        "content": "data",
        "recordCount": 8,
        "errorCount": 0
    },
    "formatInfo": {
        "format": "delimited",
        "options": {
            "fieldDelimiter": ",",
            "recordDelimiter": "\n",
            "nullValue": "",
            "quoteChar": "\"",
            "escapeChar": ""
        }
    },
    "dataInfo": {
        "sourceSchema": "",
        "sourceTable": "attrep_ddl_history",
        "targetSchema": "",
        "targetTable": "attrep_ddl_history",
        "tableVersion": 1,
        "columns": [
            {
                "ordinal": 1,
                "name": "SERVER_NAME",
                "type": "STRING",
                "length": 128,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 2,
                "name": "TASK_NAME",
                "type": "STRING",
                "length": 128,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 3,
                "name": "TABLE_OWNER",
                "type": "STRING",
                "length": 128,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 4,
                "name": "TABLE_NAME",
                "type": "STRING",
                "length": 128,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 5,
                "name": "CHANGE_SEQ",
                "type": "STRING",
                "length": 35,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 6,
                "name": "TIMESTAMP",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 7,
                "name": "TABLE_VERSION",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 8,
                "name": "DDL_TYPE",
                "type": "STRING",
                "length": 15,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 9,
                "name": "DETAILS",
                "type": "CLOB",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            }
        ]
    }
}
