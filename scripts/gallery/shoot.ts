import path from "node:path";
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "playwright";
import type { Scene, State } from "./define-states.ts";

/** The middle one is the narrowest that shows tables with columns (`sm`), where they are most likely to be too wide. */
export const widths = [320, 640, 1440] as const;
export const schemes = ["light", "dark"] as const;

/** Taller pictures show nothing more and take longer. */
const tallestPx = 6_000;
/** Enough on a machine that is busy with the other pages. */
const waitMs = 30_000;

/** A picture and its faults. */
export interface Shot {
  state: State;
  width: number;
  scheme: string;
  /** Null if no picture was taken. */
  file: string | null;
  faults: string[];
}

/**
 * Brings a page to a state and takes its pictures at all widths and colour schemes without reloading it.
 * @param options.isCheck takes only the pictures of views with faults
 */
export async function shoot(
  scene: Scene,
  { state, directory, isCheck }: { state: State; directory: string; isCheck: boolean },
): Promise<Shot[]> {
  const { page } = scene;
  const said = listen(page);
  page.setDefaultTimeout(waitMs);
  const name = `${state.area}-${state.name}`.replace(/[^A-Za-z0-9]+/g, "-").toLowerCase();
  try {
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    const asked = new URL(await state.at(scene), scene.world.base);
    const answer = await page.goto(asked.href, { waitUntil: "load" });
    if (state.act) await state.act(scene);
    else requireArrival(state, { asked, reached: new URL(page.url()), status: answer?.status() ?? 0 });
  } catch (error) {
    const file = `${name}-stuck.png`;
    const seen = await page.screenshot({ path: path.join(directory, file) }).catch(() => null);
    return [{ state, width: 0, scheme: "stuck", file: seen && file, faults: [`was not reached: ${reasonOf(error)}`] }];
  }
  try {
    return await takeAll(page, { state, directory, isCheck, name, said });
  } catch (error) {
    return [{ state, width: 0, scheme: "stuck", file: null, faults: [`could not be pictured: ${reasonOf(error)}`] }];
  }
}

/** @throws if the page redirected to another address, or if its HTTP status is not the one that the state expects */
function requireArrival(
  { status: declared }: State,
  { asked, reached, status }: { asked: URL; reached: URL; status: number },
): void {
  if (reached.origin !== asked.origin || reached.pathname !== asked.pathname)
    throw new Error(`${asked.pathname} led to ${reached.href}`);
  if (declared === undefined ? status >= 400 : status !== declared)
    throw new Error(`${asked.pathname} was answered by ${status}`);
}

const reasonOf = (error: unknown) =>
  error instanceof Error ? error.message.split("\n").slice(0, 3).join(" ") : String(error);

async function takeAll(
  page: Page,
  {
    state,
    directory,
    isCheck,
    name,
    said,
  }: { state: State; directory: string; isCheck: boolean; name: string; said: string[] },
): Promise<Shot[]> {
  const shots: Shot[] = [];
  for (const scheme of schemes) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await settle(page);
      const file = `${name}-${width}-${scheme}.png`;
      const { wide, high } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        high: document.documentElement.scrollHeight,
      }));
      const clip = { x: 0, y: 0, width, height: Math.min(high, tallestPx) };
      const faults = [
        ...(wide > width ? [`is ${wide} px wide`] : []),
        ...(await leaving(page)),
        ...(await violations(page, { width, scheme })),
        ...said.splice(0).map((text) => `console: ${text}`),
      ];
      const isTaken = !isCheck || faults.length > 0;
      if (isTaken) await page.screenshot({ path: path.join(directory, file), fullPage: true, clip });
      shots.push({ state, width, scheme, file: isTaken ? file : null, faults });
    }
  }
  return shots;
}

/** Collects the errors that the page logs from now on. */
function listen(page: Page): string[] {
  const said: string[] = [];
  page.on("console", (message) => {
    // Ignores failed responses, since a refusal is a valid state and browsers log its status as an error.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) said.push(message.text());
  });
  page.on("pageerror", (error) => said.push(error.message));
  return said;
}

/** Waits until changes are rendered. */
async function settle(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)));
    const passing = document.getAnimations().filter((each) => each instanceof CSSTransition);
    await Promise.allSettled(passing.map(({ finished }) => finished));
  });
}

/** Returns elements that overflow their card, unless they are scrolled or clipped. */
async function leaving(page: Page): Promise<string[]> {
  const found = await page.evaluate(() =>
    [...document.querySelectorAll("section.rounded-card")].flatMap((card) => {
      const edge = card.getBoundingClientRect().right;
      const keptIn = (element: Element): boolean => {
        const parent = element.parentElement;
        return !!parent && parent !== card && (getComputedStyle(parent).overflowX !== "visible" || keptIn(parent));
      };
      return [...card.querySelectorAll("a, button, input, select, textarea, p, th, td, dd, img, svg")]
        .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > edge)
        .filter((element) => !keptIn(element))
        .map((element) => element.textContent || element.tagName);
    }),
  );
  return found.length > 0 ? [`sticks out of its card: ${found[0]}`] : [];
}

/**
 * Runs axe only once per colour scheme, because axe takes longer than a picture. Checks the light scheme at the widest
 * width and the dark scheme at the narrowest.
 */
async function violations(page: Page, { width, scheme }: { width: number; scheme: string }): Promise<string[]> {
  if (width !== (scheme === "light" ? widths[2] : widths[0])) return [];
  // Without legacy mode, each analysis opens a page of its own. Legacy mode leaves out cross-origin frames, which do
  // not matter here.
  const { violations: found } = await new AxeBuilder({ page }).setLegacyMode().analyze();
  return found.map(({ id, nodes }) => `axe: ${id}: ${nodes[0]?.html ?? ""}`);
}
