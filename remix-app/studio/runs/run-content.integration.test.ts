import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, enter, type SignedInBrowser } from "../../../scripts/test/people.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let owner: SignedInBrowser;
let member: SignedInBrowser;
let runPath: string;
let runId: string;
const secret = `<script>alert("said ${randomUUID()}")</script>`;
const escaped = secret.replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

beforeAll(async () => {
  const [own, one, two] = await Promise.all([createGatewayTenant(), createPerson(), createPerson()]);
  tenant = own;
  const { db, workspaceId } = tenant;
  await setPolicy(true, 30);
  await join(db, { workspaceId, userId: one.id, role: "owner" });
  await join(db, { workspaceId, userId: two.id, role: "member" });
  const requestId = `said-${randomUUID()}`;
  const [first, second] = await Promise.all([
    enter(one),
    enter(two),
    tenant.client.chat.completions.create(
      { model: "demo-chat", messages: [{ role: "user", content: secret }] },
      { headers: { "x-request-id": requestId } },
    ),
  ]);
  [owner, member] = [first, second];
  await tenant.accountOf(requestId);
  const [run] = await db.query<{ id: string }>("select id from ai.runs where workspace_id = $1 and request_id = $2", [
    workspaceId,
    requestId,
  ]);
  runId = run?.id ?? "";
  runPath = `/workspaces/${workspaceId}/ai/runs/${runId}`;
});
afterAll(() => tenant.close());

async function setPolicy(capture: boolean, days: number): Promise<void> {
  await tenant.db.query(
    `insert into ai.workspace_policies (workspace_id, content_capture, content_retention_days) values ($1, $2, $3)
     on conflict (workspace_id) do update set content_capture = $2, content_retention_days = $3`,
    [tenant.workspaceId, capture, days],
  );
}
const readings = () =>
  tenant.db.query(
    "select actor_id, subject_id from public.workspace_audit_log where workspace_id = $1 and action = 'run_content.read'",
    [tenant.workspaceId],
  );

describe("a run's content", () => {
  test("members who manage content capture can open a run's content, which is shown as text, and each view is recorded", async () => {
    const page = await owner.get(runPath);
    expect(page.words).toContain("This workspace keeps prompts and answers. These are deleted");
    expect(page.text).not.toContain("said ");
    expect(await readings()).toEqual([]);
    const opened = await owner.post(runPath, { step: "open" });
    expect(opened.status).toBe(200);
    expect(opened.text).toContain(escaped);
    expect(opened.text).not.toContain(secret);
    const userId = (await owner.session()).user.id;
    expect(await readings()).toEqual([{ actor_id: userId, subject_id: runId }]);
    const activity = await owner.get(`/workspaces/${tenant.workspaceId}/activity`);
    expect(activity.words).toContain(`viewed the prompts and answers of run ${runId}`);
  });

  test("a run's content is not revealed to other members, not even in a list, file or API response", async () => {
    const page = await member.get(runPath);
    expect(page.status).toBe(200);
    expect(page.words).not.toContain("Prompts and answers");
    expect((await member.post(runPath, { step: "open" })).status).toBe(403);
    expect(await readings()).toHaveLength(1);
    const workspace = `/workspaces/${tenant.workspaceId}/ai`;
    for (const path of [
      `${workspace}/runs`,
      `${workspace}/runs.csv`,
      `/api/v1${workspace}/runs`,
      `/api/v1${workspace}/runs/${runId}`,
    ]) {
      const { status, text } = await owner.get(path);
      expect([path, status, text.includes("alert(")]).toEqual([path, 200, false]);
    }
  });

  test("a run's content is hidden as soon as capture is turned off", async () => {
    await setPolicy(false, 30);
    expect((await owner.get(runPath)).words).not.toContain("Prompts and answers");
    const late = await owner.post(runPath, { step: "open" });
    expect([late.status, late.text.includes("alert(")]).toEqual([404, false]);
    expect(await readings()).toHaveLength(1);
  });
});
