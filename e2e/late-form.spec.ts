import { query, signedInLongAgo } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { enter, expect, test } from "./test.ts";

const { base } = readStack();

test("a form sent after the step-up expired keeps its values until the person has confirmed their identity again", async ({
  context,
  page,
  member,
}) => {
  const [workspace] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [member.email],
  );
  await enter(page, member, `/workspaces/${workspace?.id}/ai/keys/new`);
  await page.getByLabel("Name").fill("Nightly import");
  await page.getByText("More settings").click();
  await page.getByLabel("Requests per minute").fill("30");
  // More than ten minutes pass, so the step-up expires.
  const late = await signedInLongAgo(member, { secondsAgo: 610 });
  await context.clearCookies();
  const pairs = late
    .cookie()
    .split("; ")
    .map((pair) => pair.split(/=(.*)/s));
  await context.addCookies(pairs.map(([name = "", value = ""]) => ({ name, value, url: base })));
  await page.getByRole("button", { name: "Create key" }).click();
  await expect(page.getByRole("heading", { name: "Confirm it’s you" })).toBeVisible();
  await page.getByLabel("Password", { exact: true }).fill(member.password);
  await page.getByRole("button", { name: "Confirm", exact: true }).click();
  await expect(page.getByLabel("Name")).toHaveValue("Nightly import");
  await expect(page.getByLabel("Requests per minute")).toHaveValue("30");
  await page.reload();
  await expect(page.getByLabel("Name")).toHaveValue("");
});
