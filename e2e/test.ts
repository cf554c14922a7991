import { readFileSync } from "node:fs";
import AxeBuilder from "@axe-core/playwright";
import type axe from "axe-core";
import { type BrowserContext, test as base, expect, type Page } from "playwright/test";
import { newAddress } from "../remix-app/testing/visitor.ts";
import { cookieOf } from "../scripts/test/keep-session.ts";
import { deletePerson, insertAccount, query } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";

export interface Person {
  email: string;
  password: string;
}

interface Fixtures {
  /** A person without an account. An account created for the email is deleted afterwards. */
  newcomer: Person;
  /** A person with a confirmed account. The account is deleted after the test. */
  member: Person;
  colleague: Person;
  third: Person;
}

const stack = readStack();
/**
 * The minified source. The source that the axe-core package exports is more than twice as large, and would be sent to
 * each page.
 */
const axeSource = readFileSync("node_modules/axe-core/axe.min.js", "utf8");

export function makePerson(): Person {
  const id = crypto.randomUUID();
  return { email: `${id.slice(0, 8)}@e2e.gatehouse.test`, password: `correct horse ${id.slice(-12)}` };
}

async function withAccount(use: (person: Person) => Promise<void>): Promise<void> {
  const person = makePerson();
  const id = await insertAccount(person);
  // Backdates the confirmation. If a sign-in link is used in the same second as the confirmation, the backend mistakes
  // the link for the confirmation link.
  await query("update auth.users set email_confirmed_at = now() - interval '1 hour' where id = $1", [id]);
  await use(person);
  await deletePerson({ id });
}

/** Firefox does not report violations of a page's policy to the tests, so the page writes each to its console. */
function logPolicyViolations(): void {
  addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI, sourceFile }) =>
    console.error(`policy violation: ${effectiveDirective} ${blockedURI} ${sourceFile}`),
  );
}

export const test = base.extend<Fixtures>({
  // Expects that no page of a test breaks its own content security policy.
  context: async ({ context }, use, { errors }) => {
    const violations = new Set<string>();
    context.on("console", (message) => {
      if (message.text().startsWith("policy violation: ")) violations.add(`${message.page()?.url()} ${message.text()}`);
    });
    await context.addInitScript(logPolicyViolations);
    await use(context);
    // Playwright's screenshot of a failure adds a style.
    if (errors.length === 0) expect([...violations]).toEqual([]);
  },
  // Each test has its own address, so its attempts do not count against another test.
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  extraHTTPHeaders: async ({}, use) => use({ "X-Forwarded-For": newAddress() }),
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  newcomer: async ({}, use) => {
    const person = makePerson();
    await use(person);
    await query("delete from auth.users where email = $1", [person.email]);
  },
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  member: async ({}, use) => withAccount(use),
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  colleague: async ({}, use) => withAccount(use),
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  third: async ({}, use) => withAccount(use),
});

export { expect };

/** Signs in on the sign-in page. Does not check which page follows. */
export async function signIn(page: Page, { email, password }: Person, { at = "/login" } = {}): Promise<void> {
  await page.goto(at);
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

/** Gives a browser the cookies of a person who has already signed in. */
export async function hold(context: BrowserContext, person: Person): Promise<void> {
  const cookies = (await cookieOf(person)).split("; ").map((pair) => ({
    name: pair.slice(0, pair.indexOf("=")),
    value: pair.slice(pair.indexOf("=") + 1),
    url: stack.base,
    httpOnly: true,
    sameSite: "Lax" as const,
  }));
  await context.addCookies(cookies);
}

/** Opens a page as a person who has already signed in, for tests that are not about the sign-in. */
export async function enter(page: Page, person: Person, at = "/"): Promise<void> {
  await hold(page.context(), person);
  await page.goto(at);
}

/**
 * Expects a page without axe violations that fits small screens. The tests do this once for each page; the gallery does
 * it for every state, in both color schemes. axe needs JavaScript on the page.
 */
export async function expectWellMade(page: Page): Promise<void> {
  // Disables transitions first, so that a color change applies immediately.
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  // A prefetched page is hidden until the server has confirmed its session.
  await page.locator("html:not([data-unconfirmed])").waitFor();
  await page.evaluate(async () => {
    await new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)));
    const transitions = document.getAnimations().filter((animation) => animation instanceof CSSTransition);
    await Promise.allSettled(transitions.map(({ finished }) => finished));
  });
  // axe crashes Firefox on some pages.
  if (page.context().browser()?.browserType().name() === "chromium") expect(await violationsOn(page)).toEqual([]);
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await expectFitsSmallScreens(page);
}

/**
 * Returns axe's violations on a page. Uses AxeBuilder only for a page with frames, because AxeBuilder opens an extra
 * page for each analysis.
 */
async function violationsOn(page: Page): Promise<string[]> {
  const options: axe.RunOptions = { resultTypes: ["violations"] };
  let violations: axe.Result[];
  if (page.frames().length > 1) {
    violations = (await new AxeBuilder({ page }).options(options).analyze()).violations;
  } else {
    if (await page.evaluate("window.axe === undefined")) await page.evaluate(axeSource);
    violations = await page.evaluate(`window.axe.run(${JSON.stringify(options)}).then(({ violations }) => violations)`);
  }
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

/**
 * Expects a page not to scroll sideways at 320 px, or at 1280 px with 200 % zoom, and its targets to measure at least
 * 24 × 24 px (WCAG 2.2, 2.5.8). Links within a sentence are exempt.
 */
export async function expectFitsSmallScreens(page: Page): Promise<void> {
  const before = page.viewportSize();
  for (const width of [640, 320]) {
    await page.setViewportSize({ width, height: 640 });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
  }
  expect(await page.evaluate(smallTargets)).toEqual([]);
  if (before) await page.setViewportSize(before);
}

/**
 * Runs in the page. A checkbox's label counts as part of its target. The columns of a chart may be narrow, because Runs has
 * the same ranges (WCAG 2.5.8, "Equivalent").
 */
function smallTargets(): string[] {
  const targets = document.querySelectorAll(
    "a[href]:not(.chart-links > li > a), button, select, summary, textarea, input:not([type=hidden])",
  );
  return [...targets].flatMap((target) => {
    const labels = target instanceof HTMLInputElement ? [...(target.labels ?? [])] : [];
    const areas = [target, ...labels].map((one) => one.getBoundingClientRect());
    const isShown = areas.some(({ width, height }) => width > 1 && height > 1);
    const isLargeEnough = areas.some(({ width, height }) => Math.min(width, height) >= 23.5);
    const inSentence =
      getComputedStyle(target).display === "inline" && target.parentElement?.textContent !== target.textContent;
    const { width = 0, height = 0 } = areas[0] ?? {};
    return isShown && !isLargeEnough && !inSentence
      ? [`${Math.round(width)} × ${Math.round(height)} ${target.outerHTML.slice(0, 120)}`]
      : [];
  });
}
