// What Sequelize's users do, told line by line; NODE_PATH names the folder of sequelize and pg.
"use strict";
const fs = require("fs");
const { DataTypes, QueryTypes, Sequelize, col, fn } = require("sequelize");

const tell = (did, told) => console.log(JSON.stringify({ did, told }));

async function main() {
  const db = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, process.env.PGPASSWORD, {
    host: process.env.PGHOST,
    port: Number(process.env.PGPORT),
    dialect: "postgres",
    timezone: "+05:30",
    logging: false,
    dialectOptions: {
      ssl: { ca: fs.readFileSync(process.env.PGSSLROOTCERT, "utf8") },
      statement_timeout: 60000,
    },
  });
  await db.authenticate();
  const select = (sql, options = {}) => db.query(sql, { type: QueryTypes.SELECT, ...options });
  tell("zone", await select("SHOW timezone"));
  tell("version", (await db.databaseVersion()).split(".")[0]);
  tell("moment", await select("SELECT TIMESTAMPTZ '2024-02-29 12:00:00+00' AS t"));

  const Country = db.define(
    "country",
    { code: { type: DataTypes.TEXT, primaryKey: true } },
    { tableName: "countries", timestamps: false },
  );
  const Customer = db.define(
    "customer",
    {
      customer_id: { type: DataTypes.BIGINT, primaryKey: true },
      segment: DataTypes.TEXT,
      age: DataTypes.BIGINT,
    },
    { tableName: "customers", timestamps: false },
  );
  tell("rows", await Country.findAll({ order: ["code"], raw: true }));
  tell("by key", (await Country.findByPk("SE")).get());
  tell("first", await Country.findOne({ where: { code: ["NO", "SE"] }, order: ["code"], raw: true }));
  tell("counted", await Country.count());
  const grouped = await Customer.findAll({
    attributes: ["segment", [fn("COUNT", col("*")), "n"]],
    where: { age: { [Sequelize.Op.gt]: 30 } },
    group: ["segment"],
    order: ["segment"],
    raw: true,
  });
  tell("grouped", grouped.map((row) => [row.segment, typeof row.n]));
  tell("summed", typeof (await Customer.sum("age")));
  for (const given of [{ replacements: { age: 30 } }, { bind: { age: 30 } }]) {
    const mark = given.bind ? "$age" : ":age";
    const found = await select(`SELECT COUNT(*) AS n FROM customers WHERE age > ${mark}`, given);
    tell(`given by ${Object.keys(given)}`, found.map((row) => typeof row.n));
  }

  const asked = db.getQueryInterface();
  tell("tables", (await asked.showAllTables()).sort());
  const described = await asked.describeTable("orders");
  // PostgreSQL tells of primary keys to owners alone.
  const columns = Object.entries(described).map(([name, { type, allowNull }]) => [name, type, allowNull]);
  tell("columns", columns.sort());
  tell("exists", [await asked.tableExists("orders"), await asked.tableExists("nowhere")]);
  tell("indexes", (await asked.showIndex("orders")).map(({ name, primary, unique }) => [name, primary, unique]));

  const failed = [];
  await db
    .transaction(async (transaction) => {
      failed.push((await select("SELECT code FROM countries ORDER BY code", { transaction })).length);
      await select("SELECT nothing FROM customers", { transaction });
    })
    .catch((error) => failed.push([error.name, error.parent.code]));
  tell("failure", failed);
  await db.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
