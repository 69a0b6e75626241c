// SPDX-License-Identifier: Apache-2.0
// A certificate for servers on 127.0.0.1 that signs itself. Source: RFC 5280.
import { generateKeyPairSync, sign } from 'node:crypto';

/** @param {number} tag @param {...(Buffer | number[])} parts of a value, in DER */
function der(tag, ...parts) {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const length = body.length < 128 ? [body.length] : [0x82, body.length >> 8, body.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
}

const SEQUENCE = 0x30;
const SET = 0x31;

/** @param {number[]} bytes */
const oid = (...bytes) => der(0x06, bytes);

/** Returns the key and the certificate of a server, in PEM. */
export function makeCertificate() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = der(SEQUENCE, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
  const commonName = der(SEQUENCE, oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from('wisp test')));
  const name = der(SEQUENCE, der(SET, commonName));
  const time = (/** @type {string} */ text) => der(0x18, Buffer.from(text));
  const isAuthority = der(SEQUENCE, der(0x01, [0xff]));
  const address = der(SEQUENCE, der(0x87, [127, 0, 0, 1]));
  const extensions = der(
    SEQUENCE,
    der(SEQUENCE, oid(0x55, 0x1d, 0x13), der(0x01, [0xff]), der(0x04, isAuthority)),
    der(SEQUENCE, oid(0x55, 0x1d, 0x11), der(0x04, address)),
  );
  const body = der(
    SEQUENCE,
    der(0xa0, der(0x02, [2])), // version 3
    der(0x02, [1]), // serial number
    ecdsaWithSha256,
    name,
    der(SEQUENCE, time('20200101000000Z'), time('29991231235959Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  );
  const signature = sign('sha256', body, privateKey);
  const whole = der(SEQUENCE, body, ecdsaWithSha256, der(0x03, [0], signature));
  const lines = whole.toString('base64').replace(/.{64}/g, '$&\n');
  return {
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}
