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
        "location": "shop.order_line",
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
        "sourceTable": "order_line",
        "targetSchema": "shop",
        "targetTable": "order_line",
        "tableVersion": 1,
        "columns": [
            {
                "ordinal": 1,
                "name": "line_id",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 1
            },
            {
                "ordinal": 2,
                "name": "order_id",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 3,
                "name": "goods",
                "type": "STRING",
                "length": 80,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 4,
                "name": "quantity",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 5,
                "name": "price",
                "type": "NUMERIC",
                "length": 0,
                "precision": 10,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 6,
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
