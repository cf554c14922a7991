import { existsSync } from "node:fs";
import { type AgentFacts, agentSettings } from "./agent-settings.ts";
import type { Tool } from "./arguments.ts";
import { Failure } from "./failure.ts";
import { applyJsonEdits, jsonUndo, undoJsonEdits } from "./json-edits.ts";
import { readText, writeText } from "./private-files.ts";
import type { Connection } from "./store.ts";
import { applyTomlEdits, hasInlineTable, tomlUndo, undoTomlEdits } from "./toml-edits.ts";

type Configuration = NonNullable<Connection["configuration"]>;

/**
 * Writes an agent's configuration and keeps everything else in the file. A second call changes nothing.
 * @param options.previous the file and undo information that an earlier call returned
 * @returns the file and undo information of this call, and whether the file changed
 * @throws Failure if the file cannot be parsed; it is unchanged then
 */
export async function configure(
  tool: Tool,
  { facts, previous }: { facts: AgentFacts; previous: Configuration | null },
): Promise<Configuration & { isChanged: boolean }> {
  const settings = agentSettings(tool, facts, { exists: existsSync });
  const { file } = settings;
  const source = (await readText(file)) ?? "";
  const previousUndo = previous?.file === file ? previous.undo : undefined;
  const { text, undo } = addFileNameToErrors(file, () => {
    if (settings.format === "json") {
      return applyJsonEdits(source, {
        edits: settings.edits,
        ...optionalPrevious(jsonUndo.safeParse(previousUndo).data),
      });
    }
    const inline = ["model_providers", ...Object.keys(settings.edits.tables)].find((name) =>
      hasInlineTable(source, name),
    );
    if (inline !== undefined) throw new SyntaxError(`${inline} has no header of its own`);
    return applyTomlEdits(source, {
      edits: settings.edits,
      ...optionalPrevious(tomlUndo.safeParse(previousUndo).data),
    });
  });
  const isChanged = text !== source;
  if (isChanged) await writeText(file, text);
  return { file, undo, isChanged };
}

/**
 * Removes the settings that {@link configure} wrote and restores the earlier ones, except where somebody has changed
 * them since.
 */
export async function unconfigure({ file, undo }: Configuration): Promise<void> {
  const source = await readText(file);
  if (source === null) return;
  const [json, toml] = [jsonUndo.safeParse(undo).data, tomlUndo.safeParse(undo).data];
  const text = addFileNameToErrors(file, () =>
    json ? undoJsonEdits(source, json) : toml ? undoTomlEdits(source, toml) : source,
  );
  if (text !== source) await writeText(file, text);
}

function optionalPrevious<Undo>(previous: Undo | undefined): { previous?: Undo } {
  return previous === undefined ? {} : { previous };
}

function addFileNameToErrors<Result>(file: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new Failure("configuration", `Couldn’t change ${file}: ${error.message}. Correct it, then try again.`);
  }
}
