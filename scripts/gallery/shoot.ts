import path from "node:path";
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "playwright";
import type { State, World } from "./states.ts";

export const widths = [320, 768, 1440] as const;
export const schemes = ["light", "dark"] as const;

/** One picture, and what is wrong on it. */
export type Shot = { state: string; visitor: string; width: number; scheme: string; file: string; faults: string[] };

/** Takes a state's pictures in all widths and schemes, without leaving it in between. */
export async function shoot(
  page: Page,
  { state, world, directory }: { state: State; world: World; directory: string },
) {
  const said: string[] = [];
  const listen = (message: { type(): string; text(): string }) => {
    // A refusal is a state too, and browsers log its status.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) said.push(message.text());
  };
  const fail = (error: Error) => said.push(error.message);
  page.on("console", listen);
  page.on("pageerror", fail);
  try {
    await page.goto(state.at(world), { waitUntil: "load" });
    await state.act?.(page);
    const shots: Shot[] = [];
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      for (const scheme of schemes) {
        await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
        await page.evaluate(async () => {
          await new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)));
          const passing = document.getAnimations().filter((each) => each instanceof CSSTransition);
          await Promise.allSettled(passing.map(({ finished }) => finished));
        });
        const file = `${state.name.replace(/[^A-Za-z0-9]+/g, "-").toLowerCase()}-${width}-${scheme}.png`;
        await page.screenshot({ path: path.join(directory, file), fullPage: true });
        const overflow = (await page.evaluate("document.documentElement.scrollWidth")) as number;
        const { violations } = await new AxeBuilder({ page }).analyze();
        const faults = [
          ...(overflow > width ? [`is ${overflow} px wide`] : []),
          ...violations.map(({ id, nodes }) => `axe: ${id}: ${nodes[0]?.html ?? ""}`),
          ...said.splice(0).map((text) => `console: ${text}`),
        ];
        shots.push({ state: state.name, visitor: state.visitor, width, scheme, file, faults });
      }
    }
    return shots;
  } finally {
    page.off("console", listen);
    page.off("pageerror", fail);
  }
}
