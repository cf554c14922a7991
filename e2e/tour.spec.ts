import type { Page } from "playwright/test";
import { renderFault } from "../scripts/docs/blocks.ts";
import { readDocument } from "../scripts/docs/documents.ts";
import { openWorkplace, runBlock } from "../scripts/docs/run-block.ts";
import { readTour, tour } from "../scripts/docs/tour.ts";
import { query } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { confirmationLink } from "./mailbox.ts";
import { expect, type Person, signIn, test } from "./test.ts";

const stack = readStack();
const demo = stack.users.find(({ role }) => role === "user");
if (!demo) throw new Error("The stack has no demo user.");
const [satellite] = stack.satellites;

type Visit = { page: Page; newcomer: Person };

/** The action for each bold step of the tour, by the step's text. */
const deeds: Record<string, (visit: Visit) => Promise<void>> = {
  "Create an account": async ({ page, newcomer }) => {
    await page.goto(stack.base);
    await page.getByRole("link", { name: "Create an account" }).click();
    await page.getByLabel("Email").fill(newcomer.email);
    await page.getByLabel("Password").fill(newcomer.password);
    await page.getByRole("button", { name: "Create account" }).click();
    await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  },
  "Confirm and sign in": async ({ page, newcomer }) => {
    await page.goto(await confirmationLink(newcomer.email));
    await page.getByRole("button", { name: "Confirm and sign in" }).click();
    await expect(page.getByRole("link", { name: /workspace/ }).filter({ hasText: "Personal" })).toBeVisible();
  },
  "Sign out": async ({ page }) => {
    await page.getByRole("button", { name: "Account menu" }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await signIn(page, demo);
  },
  "Demo workspace": ({ page }) => page.getByRole("link", { name: /Demo workspace/ }).click(),
  Runs: async ({ page }) => {
    await page.getByRole("link", { name: "Runs", exact: true }).click();
    const runs = page.getByRole("row", { name: /demo-chat/ });
    await expect(runs).not.toHaveCount(0);
    await runs.first().getByRole("link").click();
    for (const figure of ["Tokens in", "Provider cost", "Billed credits"]) {
      await expect(page.getByText(figure, { exact: true })).toBeVisible();
    }
  },
  "API keys": async ({ page }) => {
    await page.getByRole("link", { name: "API keys", exact: true }).click();
    await expect(page.getByRole("link", { name: "Create key" })).toBeVisible();
  },
  "Sign in": async ({ page }) => {
    await page.goto(satellite?.url ?? "");
    await page.getByRole("link", { name: "Sign in" }).click();
  },
  "Continue as demo@gatehouse.test": async ({ page }) => {
    await page.getByRole("button", { name: `Continue as ${demo.email}` }).click();
    await expect(page.getByText(`Signed in as ${demo.email}`)).toBeVisible();
  },
};

test("the tour of docs/getting-started.md works as written, from sign-up to npm run doctor", async ({
  page,
  newcomer,
}) => {
  // Other test suites left models in the stack, and the doctor would report that the demo provider lacks some of them.
  await query("update ai.models set enabled = false where owned_by = 'test'", []);
  const workplace = await openWorkplace(stack);
  const done: string[] = [];
  try {
    for (const step of readTour(tour.file, readDocument(tour.file), tour.heading)) {
      if (step.kind === "words") {
        const deed = deeds[step.words];
        expect(deed, `the tour has “${step.words}”, which no step here handles`).toBeDefined();
        await test.step(step.words, () => deed?.({ page, newcomer }));
        done.push(step.words);
      } else {
        const { file, line } = step.block;
        await test.step(`runs the code at ${file}:${line}`, async () => {
          const message = await runBlock(step.block, workplace);
          expect(message === undefined ? "" : renderFault({ file, line, message })).toBe("");
        });
      }
    }
  } finally {
    await workplace.remove();
  }
  expect(done).toEqual(Object.keys(deeds));
});
