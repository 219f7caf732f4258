// Empties the TTL list cache of the benchmark table: `node purge.js`.

import { DATABASE_ID, readConnection, TABLE_ID } from './config.js';
import { openTables } from './workload.js';

try {
  const tables = openTables(readConnection(process.env));
  await tables.updateTable({ databaseId: DATABASE_ID, tableId: TABLE_ID, purge: true });
  console.log(`Purged the cached lists of ${DATABASE_ID}/${TABLE_ID}.`);
} catch (error) {
  console.error(`purge: ${error.message}`);
  process.exitCode = 1;
}
