package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// keys are the files that the parts of one control plane share. All are made new by each `up`.
type keys struct {
	caCert      string // what clients, and pods through the kube-root-ca.crt ConfigMap, trust
	servingCert string
	servingKey  string
	accountKey  string // signs service account tokens
}

const certificateLife = 365 * 24 * time.Hour

func makeKeys(dir string) (keys, error) {
	k := keys{
		caCert:      filepath.Join(dir, "ca.crt"),
		servingCert: filepath.Join(dir, "apiserver.crt"),
		servingKey:  filepath.Join(dir, "apiserver.key"),
		accountKey:  filepath.Join(dir, "service-account.key"),
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return k, err
	}
	ca := template("testbed-ca")
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return k, err
	}
	servingKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return k, err
	}
	serving := template("kube-apiserver")
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serving.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default.svc"}
	serving.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	servingDER, err := x509.CreateCertificate(rand.Reader, serving, ca, &servingKey.PublicKey, caKey)
	if err != nil {
		return k, err
	}
	servingKeyDER, err := x509.MarshalECPrivateKey(servingKey)
	if err != nil {
		return k, err
	}
	accountKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return k, err
	}
	for _, file := range []struct {
		path, kind string
		der        []byte
	}{
		{k.caCert, "CERTIFICATE", caDER},
		{k.servingCert, "CERTIFICATE", servingDER},
		{k.servingKey, "EC PRIVATE KEY", servingKeyDER},
		{k.accountKey, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(accountKey)},
	} {
		block := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(file.path, block, 0o600); err != nil {
			return k, err
		}
	}
	return k, nil
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func randomToken() string {
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes) // documented never to fail
	return hex.EncodeToString(bytes)
}
