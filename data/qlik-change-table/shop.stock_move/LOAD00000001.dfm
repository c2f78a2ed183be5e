{
    "dfmVersion": "1.1",
    "taskInfo": {
        "name": "shop-load",
        "sourceEndpoint": "shop-db",
        "sourceEndpointType": "Informix",
        "sourceEndpointUser": "replicate",
        "replicationServer": "replicate-01",
        "operation": "fullLoad"
    },
    "fileInfo": {
        "name": "LOAD00000001.csv",
        "extension": "",
        "location": "shop.stock_move",
        "startWriteTimestamp": "2026-02-03T08:00:00.000",
        "endWriteTimestamp": "2026-02-03T08:00:00.000",
        "firstTransactionTimestamp": null,
        "lastTransactionTimestamp": null,
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
        "sourceSchema": "shop",
        "sourceTable": "stock_move",
        "targetSchema": "shop",
        "targetTable": "stock_move",
        "tableVersion": 1,
        "columns": [
            {
                "ordinal": 1,
                "name": "move_id",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 1
            },
            {
                "ordinal": 2,
                "name": "goods",
                "type": "STRING",
                "length": 80,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 3,
                "name": "quantity",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 4,
                "name": "weight",
                "type": "REAL4",
                "length": 7,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 5,
                "name": "moved_at",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 6,
                "name": "took",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 7,
                "name": "place",
                "type": "STRING",
                "length": 12,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            }
        ]
    }
}
