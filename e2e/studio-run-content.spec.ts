import { query } from "../scripts/test/people.ts";
import { enter, expect, type Person, test } from "./test.ts";

/** Creates a run with content in a person's own workspace, which stores content. @returns the path of the run's page */
async function keepRun({ email }: Person, prompt: object): Promise<string> {
  const [run] = await query<{ id: string; workspace_id: string }>(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, request_id, credential_source, execution_mode, model_id, feature, status,
       settled_at, usage_source, routes, markup, reserved_usd, reserved_credits
     )
     select ai.run_id(now()), now(), w.id, u.id, 'said', 'session', 'interactive', 'demo-chat', 'chat', 'succeeded',
       now(), 'provider', '[]', 1, 0, 0
     from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1
     returning id, workspace_id`,
    [email],
  );
  const { id = "", workspace_id = "" } = run ?? {};
  await query("insert into ai.workspace_policies (workspace_id, content_capture) values ($1, true)", [workspace_id]);
  await query(
    `insert into ai.run_content (run_created_at, run_id, workspace_id, prompt, answer)
     select created_at, id, workspace_id, $2, $3 from ai.runs where id = $1`,
    [id, JSON.stringify(prompt), JSON.stringify({ choices: [{ message: { role: "assistant", content: "A cat." } }] })],
  );
  return `/workspaces/${workspace_id}/ai/runs/${id}`;
}

test("a run's content is shown as text on request, with long texts collapsed", async ({ page, member }) => {
  const attack = "<img src=x onerror=alert(1)>";
  const call = { id: "1", type: "function", function: { name: "look_up", arguments: '{"city":"Oslo"}' } };
  const path = await keepRun(member, {
    messages: [
      { role: "user", content: attack },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", content: `${"Rain. ".repeat(500)}The end.` },
    ],
  });
  await enter(page, member, path);
  const card = page.locator("#said");
  await expect(card).toContainText("These are deleted in 30 days");
  await expect(card).not.toContainText("A cat.");
  await card.getByRole("button", { name: "Show prompts and answers" }).click();
  await expect(card.getByText(attack)).toBeVisible();
  await expect(card.locator("img")).toHaveCount(0);
  await expect(card).toContainText('"city": "Oslo"');
  await expect(card.getByText("The end.")).toBeHidden();
  await card.getByText(/^Show all .* characters$/).click();
  await expect(card.getByText("The end.")).toBeVisible();
});
