import { readFile } from "node:fs/promises";
import path from "node:path";
import pg from "pg";
import { z } from "zod";
import { readStackFile } from "./stack.ts";

const secrets = z.object({ passwords: z.object({ supabase_admin: z.string() }) });

/**
 * Connects to a stack's database as its superuser, whom hosted Supabase keeps to itself.
 * @param stackFile the path of its stack.json
 */
export async function connectAsSuperuser(stackFile: string): Promise<pg.Client> {
  const kept = await readFile(path.join(path.dirname(stackFile), "secrets.json"), "utf8");
  const { hostname, port, pathname } = new URL(readStackFile(stackFile).supabase.dbUrl);
  const client = new pg.Client({
    host: hostname,
    port: Number(port),
    database: pathname.slice(1),
    user: "supabase_admin",
    password: secrets.parse(JSON.parse(kept)).passwords.supabase_admin,
  });
  await client.connect();
  return client;
}
