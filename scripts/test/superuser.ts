import path from "node:path";
import { superuser } from "@gatehouse/local-stack/services/postgres/cluster";
import { databaseUrl } from "../start/addresses.ts";
import { loadSecrets } from "../start/secrets.ts";
import { readStackFile } from "./stack.ts";

/**
 * Returns the database URL of a stack's superuser, which hosted Supabase does not give out.
 * @param stackFile the path of its stack.json
 */
export async function superuserUrl(stackFile: string): Promise<string> {
  const secrets = await loadSecrets(path.dirname(stackFile), { clusterExists: true });
  const { port } = new URL(readStackFile(stackFile).supabase.dbUrl);
  return databaseUrl(superuser, secrets, Number(port));
}
