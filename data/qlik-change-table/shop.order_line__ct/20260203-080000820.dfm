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
        "name": "20260203-080000820.csv",
        "extension": "",
        "location": "shop.order_line__ct",
        "startWriteTimestamp": "2026-02-03T08:00:00.820",
        "endWriteTimestamp": "2026-02-03T08:02:17.670",
        "firstTransactionTimestamp": "2026-02-03T08:00:00.820",
        "lastTransactionTimestamp": "2026-02-03T08:02:17.670",
        "content": "data",
        "recordCount": 56,
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
        "sourceTable": "order_line",
        "targetSchema": "shop",
        "targetTable": "order_line__ct",
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
                "name": "line_id",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 1
            },
            {
                "ordinal": 9,
                "name": "order_id",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 10,
                "name": "goods",
                "type": "STRING",
                "length": 80,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 11,
                "name": "quantity",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 12,
                "name": "price",
                "type": "NUMERIC",
                "length": 0,
                "precision": 10,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 13,
                "name": "place",
                "type": "STRING",
                "length": 6,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            }
        ]
    }
}
