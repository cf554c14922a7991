import { z } from "zod";
import { type Inputs, planSetup, type Step } from "./plan.ts";
import { readProject } from "./project.ts";

export type Outcome = "unchanged" | "planned" | "declined" | "applied" | "failed";

export type SetupOptions = Omit<Inputs, "project"> & {
  ref: string;
  /** Whether to apply the plan. Undefined only shows it. */
  confirm?: (question: string) => Promise<boolean>;
  print: (text: string) => void;
};

/** Shows how a hosted project differs from what it must be, and removes the differences once confirmed. */
export async function setUp({ ref, confirm, print, ...inputs }: SetupOptions): Promise<Outcome> {
  const project = await readProject(inputs.api, ref);
  print(`Project ${ref} (${project.name}, ${project.region})\n`);
  const { steps, byHand } = planSetup({ ...inputs, project });
  for (const { about, differences } of steps)
    for (const { setting, current, wanted } of differences) print(`${about}: ${setting}: ${current} → ${wanted}`);
  if (steps.length === 0) print("Nothing to change.");
  print(`\nBy hand:\n${byHand.map((item) => `- ${item}`).join("\n")}\n`);
  if (steps.length === 0) return "unchanged";
  if (!confirm) return "planned";
  if (!(await confirm(`Change project ${ref}?`))) return "declined";
  return apply(steps, print);
}

async function apply(steps: readonly Step[], print: SetupOptions["print"]): Promise<Outcome> {
  for (const [index, { about, apply }] of steps.entries()) {
    print(`applying: ${about}`);
    try {
      await apply();
      print(`applied: ${about}`);
    } catch (error) {
      print(`FAILED: ${about}: ${error instanceof z.ZodError ? "unexpected response" : messageOf(error)}`);
      const left = steps.slice(index + 1).map((step) => step.about);
      if (left.length > 0) print(`not applied: ${left.join(", ")}`);
      print("Run setup again: it continues where it stopped.");
      return "failed";
    }
  }
  return "applied";
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
