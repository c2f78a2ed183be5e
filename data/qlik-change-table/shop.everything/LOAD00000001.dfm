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
        "location": "shop.everything",
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
        "sourceTable": "everything",
        "targetSchema": "shop",
        "targetTable": "everything",
        "tableVersion": 1,
        "columns": [
            {
                "ordinal": 1,
                "name": "id",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 1
            },
            {
                "ordinal": 2,
                "name": "c_smallint",
                "type": "INT2",
                "length": 5,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 3,
                "name": "c_integer",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 4,
                "name": "c_int",
                "type": "INT4",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 5,
                "name": "c_bigint",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 6,
                "name": "c_bigserial",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 7,
                "name": "c_int8",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 8,
                "name": "c_serial8",
                "type": "INT8",
                "length": 19,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 9,
                "name": "c_date",
                "type": "DATE",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 10,
                "name": "c_float",
                "type": "REAL8",
                "length": 14,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 11,
                "name": "c_double",
                "type": "REAL8",
                "length": 14,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 12,
                "name": "c_smallfloat",
                "type": "REAL4",
                "length": 7,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 13,
                "name": "c_real",
                "type": "REAL4",
                "length": 7,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 14,
                "name": "c_boolean",
                "type": "BOOLEAN",
                "length": 1,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 15,
                "name": "c_char",
                "type": "STRING",
                "length": 10,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 16,
                "name": "c_char1",
                "type": "STRING",
                "length": 1,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 17,
                "name": "c_nchar",
                "type": "STRING",
                "length": 12,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 18,
                "name": "c_varchar",
                "type": "STRING",
                "length": 20,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 19,
                "name": "c_varchar255",
                "type": "STRING",
                "length": 255,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 20,
                "name": "c_nvarchar",
                "type": "STRING",
                "length": 30,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 21,
                "name": "c_lvarchar",
                "type": "STRING",
                "length": 600,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 22,
                "name": "c_decimal_5_2",
                "type": "NUMERIC",
                "length": 0,
                "precision": 5,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 23,
                "name": "c_decimal_4_3",
                "type": "NUMERIC",
                "length": 0,
                "precision": 4,
                "scale": 3,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 24,
                "name": "c_decimal_7_7",
                "type": "NUMERIC",
                "length": 0,
                "precision": 7,
                "scale": 7,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 25,
                "name": "c_decimal_10_0",
                "type": "NUMERIC",
                "length": 0,
                "precision": 10,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 26,
                "name": "c_decimal_32_16",
                "type": "NUMERIC",
                "length": 0,
                "precision": 32,
                "scale": 16,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 27,
                "name": "c_decimal_32_15",
                "type": "NUMERIC",
                "length": 0,
                "precision": 32,
                "scale": 15,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 28,
                "name": "c_floating",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 29,
                "name": "c_floating_4",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 30,
                "name": "c_floating_32",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 31,
                "name": "c_numeric",
                "type": "NUMERIC",
                "length": 0,
                "precision": 10,
                "scale": 6,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 32,
                "name": "c_money",
                "type": "NUMERIC",
                "length": 0,
                "precision": 10,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 33,
                "name": "c_money_16",
                "type": "NUMERIC",
                "length": 0,
                "precision": 16,
                "scale": 2,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 34,
                "name": "c_year",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 35,
                "name": "c_year_month",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 36,
                "name": "c_year_day",
                "type": "DATE",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 37,
                "name": "c_year_hour",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 38,
                "name": "c_year_minute",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 39,
                "name": "c_year_second",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 40,
                "name": "c_year_fraction1",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 41,
                "name": "c_year_fraction3",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 42,
                "name": "c_year_fraction5",
                "type": "DATETIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 43,
                "name": "c_month_day",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 44,
                "name": "c_month_fraction2",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 45,
                "name": "c_day_minute",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 46,
                "name": "c_hour_second",
                "type": "TIME",
                "length": 0,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 47,
                "name": "c_hour_fraction5",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 48,
                "name": "c_hour_fraction4",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 49,
                "name": "c_minute_fraction5",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 50,
                "name": "c_second",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 51,
                "name": "c_second_fraction3",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 52,
                "name": "c_fraction5",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 53,
                "name": "i_year_month",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 54,
                "name": "i_year9",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 55,
                "name": "i_month3",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 56,
                "name": "i_day3_second",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 57,
                "name": "i_day_fraction1",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 58,
                "name": "i_hour_second",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 59,
                "name": "i_hour4_minute",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 60,
                "name": "i_minute5_fraction5",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 61,
                "name": "i_second9_fraction3",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 62,
                "name": "i_day9",
                "type": "STRING",
                "length": 40,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 63,
                "name": "l_blob",
                "type": "BLOB",
                "length": 32768,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            },
            {
                "ordinal": 64,
                "name": "l_clob",
                "type": "CLOB",
                "length": 32768,
                "precision": 0,
                "scale": 0,
                "primaryKeyPos": 0
            }
        ]
    }
}
