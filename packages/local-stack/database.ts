import pg from "pg";

/** Runs `work` on a new connection. If the connection breaks, only the queries on it are rejected. */
export async function withDatabase<T>(
  config: string | pg.ClientConfig,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client(config);
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
