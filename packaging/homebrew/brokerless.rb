# make release URL=... fills in what stands between @.
class Brokerless < Formula
  include Language::Python::Virtualenv

  desc "Read, prove, repair and write Apache Kafka log files without a broker"
  homepage "@HOME@"
  url "@URL@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "ensurepip"
    system libexec/"bin/python", "-m", "pip", "install", buildpath
    bin.install_symlink libexec/"bin/brokerless"
    generate_completions_from_executable(bin/"brokerless", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/brokerless --version")
    (testpath/"empty-0").mkpath
    assert_match "empty", shell_output("#{bin}/brokerless ls #{testpath} 2>&1", 0)
  end
end
