package convert_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
)

// peers has the SHA-256 of what another implementation makes of the codes of peerCodes: the header
// ml_dtypes/include/float8.h of github.com/jax-ml/ml_dtypes at commit
// b793a6e2864ce20b6680df2fd480a5cd2a75fa82 with Eigen 3.4.0, compiled by g++ 12.2.0. PyTorch 1.13.0
// and NumPy 1.24.2 give the same bytes for the pairs of F16, BF16 and F32 that they were asked for. A
// NaN was given its sign and all other bits, as ours has.
var peers = map[convert.Pair]string{
	{From: convert.F32, To: convert.F16}:   "d54058d7bc4912b13c76d5492bd32cda738a8b92acf3dcef38cf16e7f1712bfa",
	{From: convert.F32, To: convert.BF16}:  "244e370ae322b66a91f2f0958f3af7ed7132176d70f8b0d647c5ee80008cfec5",
	{From: convert.F32, To: convert.E4M3}:  "55011696dcecbc96c8d2ec2a96978004e03461713b7264da8ff68f4f5c04feca",
	{From: convert.F32, To: convert.E5M2}:  "7d714e3803e26cfb7869288cc51e3ca65f70f9561c509b966746264a26b8d89a",
	{From: convert.F16, To: convert.F32}:   "16c80672a5c83016bddaefb82b69733cadb5b2550a05c8b1bbc74aa6efa6f543",
	{From: convert.F16, To: convert.BF16}:  "80683cd31c9250161bbb49b46b5f38f27d795fefae63fd3904527747fc449a6a",
	{From: convert.F16, To: convert.E4M3}:  "66c4d3a1fa3d98587843222ccdff886e38b5726e83ae53c6eb66efa4eebd6e62",
	{From: convert.F16, To: convert.E5M2}:  "92a1a336edf246100fcc85e3c61ae285755320768b7bd16a7a573cda0ee19a19",
	{From: convert.BF16, To: convert.F32}:  "e57fca0cb4d0f61226a3a350ee38db6c51f7b6bdf350d7c594135d16719bf21a",
	{From: convert.BF16, To: convert.F16}:  "8398c340535ab60e6fb79a993121330ff3b580027068a2c2f2289469cf6230ca",
	{From: convert.BF16, To: convert.E4M3}: "ecbb201b2182a3e8e84f521d57c51ff379e8e5ec61141119005be7d672db0d98",
	{From: convert.BF16, To: convert.E5M2}: "875dd70a7c02e2f8dd7ba693a8764c02ec0242f5849d693f3e8e48f9f21d9ff7",
	{From: convert.E4M3, To: convert.F32}:  "187f5d6bafa7b3aa9e1f8b6bfa7f804f15a49d626992686877b2176e619cbb42",
	{From: convert.E4M3, To: convert.F16}:  "ed6edf8c0520fd1c8a8f0de60a73e96ce4f5aa1fd01e94cb98ac3ce154c6b404",
	{From: convert.E4M3, To: convert.BF16}: "07b0a8aaf5158238a38ba0d2cc2e0ed4f337fd4796f618fe17881dd26a7a063e",
	{From: convert.E4M3, To: convert.E5M2}: "cdde632f0bb59534ba481084595bfd901eb08b8d60c4245a474800616e979aa3",
	{From: convert.E5M2, To: convert.F32}:  "2795fbd54e7ab81db0968156258e1d28578e48de2e5b79a019c1a4083f3b8e25",
	{From: convert.E5M2, To: convert.F16}:  "3dec940a30ff2b5cd515ff6f3f29656efcb252c9d56e581f715346e0c003161f",
	{From: convert.E5M2, To: convert.BF16}: "f07aedc0c938b7411570da45a53840dd4671598f9d439e46b9d293c928224781",
	{From: convert.E5M2, To: convert.E4M3}: "8bada0c1d51fabc7719938d7b82b82a8b2be888438b2755aa757e2fbc4258bd5",
}

// peerCodes returns all codes of 8 or 16 bits, and 524,288 floats of 32 bits: each of the upper halves
// with lower halves around those that decide how to round.
func peerCodes(k convert.Kind) (b []byte) {
	if k != convert.F32 {
		return sources(k)
	}
	for high := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x1000, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff} {
			b = binary.LittleEndian.AppendUint32(b, high<<16|low)
		}
	}
	return b
}

// TestPeers compares each pair of floats with what the peers compute.
func TestPeers(t *testing.T) {
	for p, want := range peers {
		t.Run(p.String(), func(t *testing.T) {
			f := newFixture(t, p)
			in := peerCodes(p.From)
			n := len(in) / (formats[p.From].width / 8)
			out := f.run(t, p, poison(n*formats[p.To].width/8), in, convert.Piece{N: n})
			if got := fmt.Sprintf("%x", sha256.Sum256(out)); got != want {
				t.Errorf("the hash of %d numbers is %s, want %s", n, got, want)
			}
		})
	}
}
