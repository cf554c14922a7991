import { installBelow } from "../../install.ts";

/** The SDKs that only this suite and the silence suite use, in the versions that they are tested with. */
export const sdkPackages: Record<string, string> = {
  "@ai-sdk/openai-compatible": "3.0.92",
  "@anthropic-ai/sdk": "1.14.0",
  ai: "7.0.173",
};

/** The suite's folder below `.local/`. */
export const sdkFolder = "sdks";

/** Installs the SDKs below `.local/`. @returns their folder */
export const installSdks = (root = "."): Promise<string> =>
  installBelow(root, { name: sdkFolder, manifest: { dependencies: sdkPackages } });
