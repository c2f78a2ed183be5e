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
        "location": "shop.customer",
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
        "sourceTable": "customer",
        "targetSchema": "shop",
        "targetTable": "customer",
        "tableVersion": 1,
        "columns": [
            {
                "ordinal": 1,
                "name": "customer_id",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 1
            },
            {
                "ordinal": 2,
                "name": "full_name",
                "type": "STRING",
                "length": 60,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 3,
                "name": "since",
                "type": "DATE",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 4,
                "name": "rating",
                "type": "INT2",
                "length": 5,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 5,
                "name": "is_member",
                "type": "BOOLEAN",
                "length": 1,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 6,
                "name": "discount",
                "type": "NUMERIC",
                "length": 0,
                "precision": 5,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 7,
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
