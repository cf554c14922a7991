import path from "node:path";
import { databaseUrl } from "../local-stack/addresses.ts";
import { loadSecrets } from "../local-stack/secrets.ts";
import { superuser } from "../local-stack/services/postgres/cluster.ts";
import { readStackFile } from "./stack.ts";

/**
 * A stack's database as seen by its superuser, whom hosted Supabase keeps to itself.
 * @param stackFile the path of its stack.json
 */
export async function superuserUrl(stackFile: string): Promise<string> {
  const secrets = await loadSecrets(path.dirname(stackFile), { clusterExists: true });
  const { port } = new URL(readStackFile(stackFile).supabase.dbUrl);
  return databaseUrl(superuser, secrets, Number(port));
}
