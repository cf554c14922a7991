import pg from "pg";

const retryDelayMs = 500;

/**
 * Calls back whenever the schema may have changed: at each `notify pgrst`, and at each new connection, since earlier
 * notifications may have been missed. Keeps retrying while the database is down.
 * @returns a function that ends the watch
 */
export function watchSchema(databaseUrl: string, onChange: () => void): () => Promise<void> {
  let isStopped = false;
  let client: pg.Client | undefined;
  let timer: NodeJS.Timeout | undefined;

  function retry(): void {
    client = undefined;
    if (!isStopped) timer = setTimeout(connect, retryDelayMs);
  }

  async function connect(): Promise<void> {
    const candidate = new pg.Client({ connectionString: databaseUrl, application_name: "data-api-schema-watch" });
    candidate.on("error", () => {});
    candidate.on("notification", onChange);
    try {
      await candidate.connect();
      candidate.once("end", retry);
      client = candidate;
      await candidate.query("listen pgrst");
      onChange();
    } catch {
      if (client === undefined) retry();
      // A standby refuses to listen. Once its connection has ended, the next one may reach the primary.
      else await candidate.end().catch(() => undefined);
    }
  }

  void connect();
  return async () => {
    isStopped = true;
    clearTimeout(timer);
    await client?.end();
  };
}
