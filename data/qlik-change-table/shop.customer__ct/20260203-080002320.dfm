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
        "name": "20260203-080002320.csv",
        "extension": "",
        "location": "shop.customer__ct",
        "startWriteTimestamp": "2026-02-03T08:00:02.320",
        "endWriteTimestamp": "2026-02-03T08:00:55.110",
        "firstTransactionTimestamp": "2026-02-03T08:00:02.320",
        "lastTransactionTimestamp": "2026-02-03T08:00:55.110",
        "content": "data",
        "recordCount": 73,
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
        "sourceSchema": "shop",
        "sourceTable": "customer",
        "targetSchema": "shop",
        "targetTable": "customer__ct",
        "tableVersion": 1,
        "columns": [
            {
                "ordinal": 1,
                "name": "header__change_seq",
                "type": "STRING",
                "length": 35,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 2,
                "name": "header__change_oper",
                "type": "STRING",
                "length": 1,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 3,
                "name": "header__change_mask",
                "type": "BYTES",
                "length": 128,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 4,
                "name": "header__stream_position",
                "type": "STRING",
                "length": 128,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 5,
                "name": "header__operation",
                "type": "STRING",
                "length": 12,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 6,
                "name": "header__transaction_id",
                "type": "STRING",
                "length": 32,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 7,
                "name": "header__timestamp",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 8,
                "name": "customer_id",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 1
            },
            {
                "ordinal": 9,
                "name": "full_name",
                "type": "STRING",
                "length": 60,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 10,
                "name": "since",
                "type": "DATE",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 11,
                "name": "rating",
                "type": "INT2",
                "length": 5,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 12,
                "name": "is_member",
                "type": "BOOLEAN",
                "length": 1,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 13,
                "name": "discount",
                "type": "NUMERIC",
                "length": 0,
                "precision": 5,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 14,
                "name": "city",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            }
        ]
    }
}
