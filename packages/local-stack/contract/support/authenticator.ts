import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** Deliberate mistakes in a WebAuthn ceremony. */
export type Quirks = {
  origin?: string;
  rpId?: string;
  challenge?: string;
  userPresent?: boolean;
  backupEligible?: boolean;
  counter?: number;
  userHandle?: string | null;
  type?: string;
};

const defaults = { origin: "http://localhost:3000", rpId: "localhost", userPresent: true, backupEligible: false };

/** A software authenticator with one ES256 passkey and no attestation. */
export class Authenticator {
  readonly credentialId: string = randomBytes(32).toString("base64url");
  private readonly aaguid: Buffer;
  private readonly keys: { publicKey: KeyObject; privateKey: KeyObject };
  private userHandle = "";

  constructor(aaguid = "00000000-0000-0000-0000-000000000000") {
    this.aaguid = Buffer.from(aaguid.replaceAll("-", ""), "hex");
    this.keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  }

  /** Returns the credential that `navigator.credentials.create` would. */
  create(options: { challenge: string; user: { id: string } }, quirks: Quirks = {}) {
    this.userHandle = options.user.id;
    const credentialId = Buffer.from(this.credentialId, "base64url");
    const length = Buffer.alloc(2);
    length.writeUInt16BE(credentialId.length);
    const attested = Buffer.concat([this.aaguid, length, credentialId, this.coseKey()]);
    const authData = Buffer.concat([this.header({ ...defaults, ...quirks }, 0x40), attested]);
    const attestationObject = cborMap([
      [cborText("fmt"), cborText("none")],
      [cborText("attStmt"), cborMap([])],
      [cborText("authData"), cborBytes(authData)],
    ]);
    return {
      id: this.credentialId,
      rawId: this.credentialId,
      type: "public-key",
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientData("webauthn.create", options.challenge, quirks).toString("base64url"),
        attestationObject: attestationObject.toString("base64url"),
        transports: ["internal"],
      },
    };
  }

  /** Returns the assertion that `navigator.credentials.get` would. */
  get(options: { challenge: string }, quirks: Quirks = {}) {
    const authenticatorData = this.header({ ...defaults, ...quirks }, 0);
    const clientDataJSON = clientData("webauthn.get", options.challenge, quirks);
    const signed = Buffer.concat([authenticatorData, createHash("sha256").update(clientDataJSON).digest()]);
    const userHandle = quirks.userHandle === undefined ? this.userHandle : quirks.userHandle;
    return {
      id: this.credentialId,
      rawId: this.credentialId,
      type: "public-key",
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientDataJSON.toString("base64url"),
        authenticatorData: authenticatorData.toString("base64url"),
        signature: sign("sha256", signed, this.keys.privateKey).toString("base64url"),
        ...(userHandle === null ? {} : { userHandle }),
      },
    };
  }

  /** WebAuthn Level 3, section 6.1: hash of the RP ID, flags, counter. */
  private header({ rpId, userPresent, backupEligible, counter = 0 }: Quirks & { rpId: string }, extraFlags: number) {
    const flags = (userPresent ? 0x01 : 0) | 0x04 | (backupEligible ? 0x08 : 0) | extraFlags;
    const count = Buffer.alloc(4);
    count.writeUInt32BE(counter);
    return Buffer.concat([createHash("sha256").update(rpId).digest(), Buffer.from([flags]), count]);
  }

  /** RFC 9053: an EC2 key on P-256 for ES256. */
  private coseKey(): Buffer {
    const { x = "", y = "" } = this.keys.publicKey.export({ format: "jwk" });
    return cborMap([
      [cborInteger(1), cborInteger(2)],
      [cborInteger(3), cborInteger(-7)],
      [cborInteger(-1), cborInteger(1)],
      [cborInteger(-2), cborBytes(Buffer.from(x, "base64url"))],
      [cborInteger(-3), cborBytes(Buffer.from(y, "base64url"))],
    ]);
  }
}

function clientData(type: string, challenge: string, quirks: Quirks): Buffer {
  const data = {
    type: quirks.type ?? type,
    challenge: quirks.challenge ?? challenge,
    origin: quirks.origin ?? defaults.origin,
    crossOrigin: false,
  };
  return Buffer.from(JSON.stringify(data));
}

function cborHead(major: number, length: number): Buffer {
  if (length < 24) return Buffer.from([(major << 5) | length]);
  if (length < 256) return Buffer.from([(major << 5) | 24, length]);
  return Buffer.from([(major << 5) | 25, length >> 8, length & 0xff]);
}

function cborInteger(value: number): Buffer {
  return value >= 0 ? cborHead(0, value) : cborHead(1, -1 - value);
}

function cborText(value: string): Buffer {
  return Buffer.concat([cborHead(3, Buffer.byteLength(value)), Buffer.from(value)]);
}

function cborBytes(value: Buffer): Buffer {
  return Buffer.concat([cborHead(2, value.length), value]);
}

function cborMap(entries: [Buffer, Buffer][]): Buffer {
  return Buffer.concat([cborHead(5, entries.length), ...entries.flat()]);
}
