// What pgjdbc's users do, told line by line: java -cp postgresql.jar Pgjdbc.java
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.LocalDateTime;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

class Pgjdbc {
  static final String CODES = "SELECT code FROM countries ORDER BY code";
  static final String CONSTANTS =
      "SELECT TRUE AS b, CAST(7 AS BIGINT) AS i, 1.50 AS d,"
          + " CAST('0.1' AS DOUBLE PRECISION) AS f, CAST('é''' AS TEXT) AS t,"
          + " DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:30:00.25' AS ts,"
          + " TIMESTAMPTZ '2024-02-29 12:30:00+00' AS tz, CAST(NULL AS BIGINT) AS nothing";
  static final String BY_SEGMENT =
      "SELECT segment, COUNT(*) AS n, CAST(AVG(age) AS DOUBLE PRECISION) AS mean FROM customers"
          + " WHERE age > ? GROUP BY segment ORDER BY segment";
  static final String OF_ORDERS =
      "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= ? AND status = ? AND amount < ?"
          + " AND discount IS DISTINCT FROM ?";
  static final String SLOW = "SELECT COUNT(*) AS n FROM events WHERE duration > 60";

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    try (Connection connection = connect("-1", "true")) {
      connection(connection);
      metadata(connection.getMetaData());
      values(connection, "binary");
      failure(connection);
      cancel(connection);
    }
    try (Connection connection = connect("0", "false")) {
      values(connection, "text");
      chunks(connection);
      copy(connection);
      cursors(connection);
    }
    try (Connection connection = connect("-1", "true", "preferQueryMode", "simple")) {
      values(connection, "simple");
    }
  }

  static Connection connect(String threshold, String binary, String... more) throws Exception {
    Properties given = new Properties();
    given.setProperty("user", System.getenv("PGUSER"));
    given.setProperty("password", System.getenv("PGPASSWORD"));
    given.setProperty("sslmode", System.getenv("PGSSLMODE"));
    given.setProperty("sslrootcert", System.getenv("PGSSLROOTCERT"));
    given.setProperty("prepareThreshold", threshold);
    given.setProperty("binaryTransfer", binary);
    for (int i = 0; i < more.length; i += 2) given.setProperty(more[i], more[i + 1]);
    String where = System.getenv("PGHOST") + ":" + System.getenv("PGPORT");
    return DriverManager.getConnection("jdbc:postgresql://" + where + "/dpsql", given);
  }

  static void connection(Connection connection) throws Exception {
    DatabaseMetaData about = connection.getMetaData();
    tell("connection", List.of(
        about.getDatabaseProductName(), about.getDatabaseMajorVersion(), about.getUserName(),
        connection.getCatalog(), connection.getSchema(), connection.isValid(5),
        connection.isReadOnly()));
  }

  static void metadata(DatabaseMetaData about) throws Exception {
    String[] kinds = {"TABLE", "VIEW"};
    tell("catalogs", rows(about.getCatalogs()));
    tell("schemas", rows(about.getSchemas()));
    tell("schemas like", rows(about.getSchemas(null, "pub%")));
    tell("table types", rows(about.getTableTypes()));
    tell("tables", rows(about.getTables(null, "public", "%", kinds)));
    String[] own = {"SYSTEM TABLE", "SYSTEM VIEW"};
    tell("own tables", rows(about.getTables(null, null, "%", own)));
    tell("columns", rows(about.getColumns(null, "public", "%", "%")));
    tell("columns of a catalogue", rows(about.getColumns(null, "pg_catalog", "pg_index", null)));
    for (String table : List.of("customers", "orders", "items", "countries")) {
      tell("key of " + table, rows(about.getPrimaryKeys(null, "public", table)));
      tell("links of " + table, rows(about.getImportedKeys(null, "public", table)));
      tell("links to " + table, rows(about.getExportedKeys(null, "public", table)));
      tell("indexes of " + table, rows(about.getIndexInfo(null, "public", table, false, true)));
      tell("row of " + table, rows(about.getBestRowIdentifier(null, "public", table, 0, true)));
      tell("version of " + table, rows(about.getVersionColumns(null, "public", table)));
      tell("privileges on " + table, rows(about.getTablePrivileges(null, "public", table)));
    }
    tell("link", rows(about.getCrossReference(null, null, "customers", null, null, "orders")));
    tell("column privileges", rows(about.getColumnPrivileges(null, "public", "orders", "a%")));
    tell("types", sorted(rows(about.getTypeInfo())));
    tell("own types", rows(about.getUDTs(null, "public", "%", null)));
    tell("functions", rows(about.getFunctions(null, null, "abs"), "remarks"));
    tell("their columns", rows(about.getFunctionColumns(null, null, "abs", "%")));
    tell("procedures", rows(about.getProcedures(null, null, "%")));
    tell("client info", rows(about.getClientInfoProperties()));
    tell("facts", List.of(
        about.getMaxColumnNameLength(), about.getMaxColumnsInIndex(), about.getSQLKeywords(),
        about.supportsTransactions(), about.getDefaultTransactionIsolation(),
        about.getIdentifierQuoteString(), about.supportsStoredProcedures()));
  }

  static void values(Connection connection, String form) throws Exception {
    try (PreparedStatement asked = connection.prepareStatement(CONSTANTS)) {
      for (int time = 1; time <= 2; time++)
        tell(form + ": constants " + time, answer(asked.executeQuery(), Set.of()));
    }
    try (PreparedStatement asked = connection.prepareStatement(BY_SEGMENT)) {
      if (!form.equals("simple")) {
        tell(form + ": described", described(asked.getMetaData()));
        ParameterMetaData wanted = asked.getParameterMetaData();
        tell(form + ": parameters", List.of(wanted.getParameterTypeName(1)));
      }
      for (long age : new long[] {30, 30, 40}) {
        asked.setLong(1, age);
        List<Object> told = answer(asked.executeQuery(), Set.of("n", "mean"));
        if (age == 40) tell(form + ": by segment", told);
      }
      asked.setInt(1, 30);
      tell(form + ": by segment, int4", answer(asked.executeQuery(), Set.of("n", "mean")));
    }
    try (PreparedStatement asked = connection.prepareStatement(OF_ORDERS)) {
      asked.setObject(1, LocalDateTime.of(2024, 2, 1, 0, 0));
      asked.setString(2, "paid");
      asked.setBigDecimal(3, new BigDecimal("99.5"));
      asked.setNull(4, Types.DOUBLE);
      tell(form + ": of orders", answer(asked.executeQuery(), Set.of("n")));
      asked.setTimestamp(1, Timestamp.valueOf("2024-02-01 00:00:00"));
      asked.setDouble(4, 0.25);
      tell(form + ": of orders, timestamp", answer(asked.executeQuery(), Set.of("n")));
    }
  }

  static void chunks(Connection connection) throws Exception {
    connection.setAutoCommit(false);
    try (PreparedStatement asked = connection.prepareStatement(CODES)) {
      asked.setFetchSize(2);
      tell("chunks", answer(asked.executeQuery(), Set.of()));
    }
    try (PreparedStatement asked = connection.prepareStatement(BY_SEGMENT)) {
      asked.setFetchSize(1);
      asked.setLong(1, 30);
      tell("chunks of an aggregate", answer(asked.executeQuery(), Set.of("n", "mean")));
    }
    try (PreparedStatement asked = connection.prepareStatement(CODES)) {
      asked.setMaxRows(2);
      tell("at most two", answer(asked.executeQuery(), Set.of()));
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  static void cursors(Connection connection) throws Exception {
    int kind = ResultSet.TYPE_SCROLL_INSENSITIVE;
    try (Statement asked = connection.createStatement(kind, ResultSet.CONCUR_READ_ONLY)) {
      ResultSet found = asked.executeQuery(CODES);
      List<Object> seen = new ArrayList<>();
      found.last();
      seen.add(found.getString(1));
      found.absolute(1);
      seen.add(found.getString("code"));
      tell("scrolled", seen);
    }
    try (Statement asked = connection.createStatement()) {
      List<Object> seen = new ArrayList<>();
      for (boolean more = asked.execute(CODES + "; SELECT CAST(2 AS BIGINT) AS two; SET jit = off");
          more || asked.getUpdateCount() != -1;
          more = asked.getMoreResults())
        seen.add(more ? rows(asked.getResultSet()) : asked.getUpdateCount());
      tell("several", seen);
    }
  }

  static void copy(Connection connection) throws Exception {
    CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
    for (String form : List.of("", "WITH (FORMAT csv, HEADER)")) {
      StringWriter copied = new StringWriter();
      long count = copies.copyOut("COPY (" + CODES + ") TO STDOUT " + form, copied);
      tell("copy " + form, List.of(count, copied.toString()));
    }
    try {
      copies.copyIn("COPY countries FROM STDIN", new StringReader("DK\tnorth\n"));
      tell("copy in", "done");
    } catch (SQLException refused) {
      tell("copy in", "refused");
    }
  }

  static void failure(Connection connection) throws Exception {
    List<Object> seen = new ArrayList<>();
    connection.setAutoCommit(false);
    try (Statement asked = connection.createStatement()) {
      seen.add(rows(asked.executeQuery("SELECT CAST(1 AS BIGINT) AS one")));
      Savepoint here = connection.setSavepoint("here");
      seen.add(state(asked, "SELECT nothing FROM customers"));
      seen.add(state(asked, CODES));
      connection.rollback(here);
      seen.add(rows(asked.executeQuery(CODES)));
      seen.add(state(asked, "SELECT 1 FROM nowhere"));
      connection.rollback();
      seen.add(rows(asked.executeQuery(CODES)));
      connection.commit();
    }
    connection.setAutoCommit(true);
    tell("failure", seen);
  }

  static void cancel(Connection connection) throws Exception {
    try (Statement asked = connection.createStatement()) {
      ExecutorService other = Executors.newSingleThreadExecutor();
      Future<String> failed = other.submit(() -> state(asked, SLOW));
      while (!failed.isDone()) {
        connection.unwrap(PGConnection.class).cancelQuery();
        Thread.sleep(100);
      }
      other.shutdown();
      tell("cancel", failed.get());
      asked.execute("SET statement_timeout = '300ms'");
      tell("timeout", state(asked, SLOW));
      asked.execute("RESET statement_timeout");
      tell("after cancel", rows(asked.executeQuery(CODES)));
    }
  }

  static String state(Statement asked, String sql) {
    try {
      asked.executeQuery(sql).close();
      return "answered";
    } catch (SQLException error) {
      return error.getSQLState();
    }
  }

  static List<Object> answer(ResultSet found, Set<String> noisy) throws SQLException {
    List<Object> told = new ArrayList<>();
    ResultSetMetaData about = found.getMetaData();
    told.add(described(about));
    while (found.next()) {
      List<Object> row = new ArrayList<>();
      for (int i = 1; i <= about.getColumnCount(); i++) {
        Object value = found.getObject(i);
        boolean hidden = noisy.contains(about.getColumnLabel(i)) && value != null;
        row.add(hidden ? value.getClass().getName() : value);
      }
      told.add(row);
    }
    return told;
  }

  static List<Object> described(ResultSetMetaData about) throws SQLException {
    List<Object> told = new ArrayList<>();
    for (int i = 1; i <= about.getColumnCount(); i++)
      told.add(Arrays.asList(
          about.getColumnLabel(i), about.getColumnTypeName(i), about.getColumnType(i),
          about.getColumnClassName(i), about.getPrecision(i), about.getScale(i),
          about.isSigned(i), about.isAutoIncrement(i)));
    return told;
  }

  static List<Object> rows(ResultSet found, String... ignored) throws SQLException {
    List<Object> told = new ArrayList<>();
    ResultSetMetaData about = found.getMetaData();
    List<Object> names = new ArrayList<>();
    for (int i = 1; i <= about.getColumnCount(); i++) names.add(about.getColumnLabel(i));
    told.add(names);
    while (found.next()) {
      List<Object> row = new ArrayList<>();
      for (int i = 1; i <= names.size(); i++)
        row.add(List.of(ignored).contains(names.get(i - 1)) ? null : found.getObject(i));
      told.add(row);
    }
    found.close();
    return told;
  }

  static List<Object> sorted(List<Object> rows) {
    rows.sort(Comparator.comparing(Object::toString));
    return rows;
  }

  static void tell(String did, Object told) {
    System.out.println("{\"did\": " + json(did) + ", \"told\": " + json(told) + "}");
  }

  static String json(Object value) {
    if (value == null || value instanceof Boolean || value instanceof Integer)
      return String.valueOf(value);
    if (value instanceof Iterable) {
      StringJoiner joined = new StringJoiner(", ", "[", "]");
      for (Object part : (Iterable<?>) value) joined.add(json(part));
      return joined.toString();
    }
    StringBuilder text = new StringBuilder("\"");
    for (char c : value.toString().toCharArray())
      if (c < ' ' || c == '"' || c == '\\' || c > '~') text.append(String.format("\\u%04x", (int) c));
      else text.append(c);
    return text.append('"').toString();
  }
}
