import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { findProgram } from "./find-program.ts";

test("looks for a program in the PATH before the usual folders", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "program-"));
  try {
    const program = path.join(folder, "pgbouncer");
    expect(findProgram("pgbouncer", `/nowhere::${folder}`)).not.toBe(program);
    writeFileSync(program, "");
    expect(findProgram("pgbouncer", `/nowhere::${folder}`)).toBe(program);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
