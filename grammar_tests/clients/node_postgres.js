// What node-postgres' users do, told line by line; NODE_PATH names the folder of pg and its kin.
"use strict";
const fs = require("fs");
const { Client, Pool, Query } = require("pg");
const Cursor = require("pg-cursor");
const copy = require("pg-copy-streams");

const CODES = "SELECT code FROM countries ORDER BY code";
const CONSTANTS =
  "SELECT TRUE AS b, CAST(7 AS BIGINT) AS i, 1.50 AS d, CAST('0.1' AS DOUBLE PRECISION) AS f," +
  " CAST('é''' AS TEXT) AS t, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:30:00.25' AS ts," +
  " TIMESTAMPTZ '2024-02-29 12:30:00+00' AS tz, CAST(NULL AS BIGINT) AS nothing";
const BY_SEGMENT =
  "SELECT segment, COUNT(*) AS n, CAST(AVG(age) AS DOUBLE PRECISION) AS mean FROM customers" +
  " WHERE age > $1 GROUP BY segment ORDER BY segment";
const OF_ORDERS =
  "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= $1 AND status = $2 AND amount < $3" +
  " AND discount IS DISTINCT FROM $4";
const SLOW = "SELECT COUNT(*) AS n FROM events WHERE duration > 60";
const TABLES =
  "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1";
const COLUMNS =
  "SELECT column_name, data_type, is_nullable, numeric_precision, numeric_scale, udt_name" +
  " FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position";

const settings = {
  host: process.env.PGHOST,
  port: Number(process.env.PGPORT),
  user: process.env.PGUSER,
  password: process.env.PGPASSWORD,
  database: process.env.PGDATABASE,
  ssl: { ca: fs.readFileSync(process.env.PGSSLROOTCERT, "utf8") },
};

const tell = (did, told) => console.log(JSON.stringify({ did, told }));
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Fields, and rows in which a noisy value is only its kind. Binary values arrive as this client
// reads them.
const answer = (found, noisy = []) => ({
  fields: found.fields.map((f) => [f.name, f.dataTypeID, f.dataTypeSize, f.format]),
  count: found.rowCount,
  command: found.command,
  rows: found.rows.map((row) =>
    Object.entries(row).map(([name, value]) => (noisy.includes(name) ? typeof value : value)),
  ),
});

const failure = (client, sql) =>
  client.query(sql).then(
    () => "answered",
    (error) => error.code,
  );

async function connection(client) {
  const found = await client.query("SHOW server_version_num");
  tell("connection", [client.connection.stream.encrypted, found.rows[0].server_version_num.slice(0, 2)]);
  tell("tables", answer(await client.query(TABLES, ["public"])));
  tell("columns", answer(await client.query(COLUMNS, ["orders"])));
}

async function values(client) {
  for (const binary of [false, true]) {
    const form = binary ? "binary" : "text";
    tell(`${form}: constants`, answer(await client.query({ text: CONSTANTS, binary })));
    const asked = { text: BY_SEGMENT, binary };
    const shown = answer(await client.query({ ...asked, values: [30] }), ["n", "mean"]);
    tell(`${form}: by segment`, shown);
    const named = { ...asked, name: `by segment in ${form}` };
    for (const age of [30, 40]) {
      const again = answer(await client.query({ ...named, values: [age] }), ["n", "mean"]);
      tell(`${form}: by segment, named ${age}`, again);
    }
    const given = [new Date(Date.UTC(2024, 1, 1)), "paid", "99.5", null];
    tell(`${form}: of orders`, answer(await client.query({ text: OF_ORDERS, values: given, binary }), ["n"]));
  }
  tell("rows as arrays", (await client.query({ text: CODES, rowMode: "array" })).rows);
  const several = await client.query(`${CODES}; SELECT CAST(2 AS BIGINT) AS two`);
  tell("several", several.map((one) => answer(one)));
  tell("empty", answer(await client.query("")));
}

async function chunks(client) {
  const cursor = client.query(new Cursor(CODES));
  const seen = [await cursor.read(2), await cursor.read(2), await cursor.read(2)];
  await cursor.close();
  const noisy = client.query(new Cursor(BY_SEGMENT, [30]));
  seen.push((await noisy.read(1)).map((row) => [row.segment, typeof row.n, typeof row.mean]));
  await noisy.close();
  tell("chunks", [...seen, (await client.query(CODES)).rowCount]);
}

async function copied(client) {
  for (const form of ["", "WITH (FORMAT csv, HEADER)", "WITH (FORMAT binary)"]) {
    const pieces = [];
    const from = client.query(copy.to(`COPY (${CODES}) TO STDOUT ${form}`));
    for await (const piece of from) pieces.push(piece);
    tell(`copy ${form}`, [Buffer.concat(pieces).toString("hex"), from.rowCount]);
  }
}

async function transaction(client) {
  const seen = [];
  for (const sql of [
    "BEGIN", "SAVEPOINT here", "SELECT nothing FROM customers", CODES, "ROLLBACK TO here", CODES,
    "SELECT 1 FROM nowhere", "ROLLBACK", CODES,
  ])
    seen.push(await failure(client, sql));
  tell("failure", seen);
}

async function cancel(client) {
  let state;
  const running = new Query(SLOW, (error) => (state = error ? error.code : "answered"));
  client.query(running);
  while (state === undefined) {
    await pause(100);
    const other = new Client({ ...settings, ssl: false });
    other.connection.on("error", () => {});
    other.cancel(client, running);
  }
  tell("cancel", state);
  await client.query("SET statement_timeout = '300ms'");
  tell("timeout", await failure(client, SLOW));
  await client.query("RESET statement_timeout");
  tell("after cancel", (await client.query(CODES)).rows);
}

async function pooled() {
  const pool = new Pool({ ...settings, max: 2 });
  const found = await Promise.all([1, 2, 3].map(() => pool.query(CODES)));
  tell("pool", found.map((one) => one.rowCount));
  await pool.end();
}

async function main() {
  const client = new Client(settings);
  await client.connect();
  await connection(client);
  await values(client);
  await chunks(client);
  await copied(client);
  await transaction(client);
  await cancel(client);
  await client.end();
  await pooled();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
