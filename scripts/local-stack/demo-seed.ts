import type { StackDescription } from "./description.ts";
import type { Secrets } from "./secrets.ts";

export type DemoData = Pick<StackDescription, "users" | "workspaceId" | "aiKey">;

export async function seedDemo(_context: {
  dataDir: string;
  supabaseUrl: string;
  dbUrl: string;
  secrets: Secrets;
}): Promise<DemoData> {
  return { users: [], workspaceId: "", aiKey: "" };
}
